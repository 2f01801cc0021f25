"""What a credential is, where it comes from, and when it is read anew."""
