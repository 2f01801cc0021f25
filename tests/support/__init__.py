"""What tests of more than one kind need."""
