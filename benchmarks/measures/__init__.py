"""What is measured: a module each, which measures with a stage, and tells what was found in Markdown."""
