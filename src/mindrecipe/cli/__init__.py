"""The command line: train, and mindrecipe with one verb a file."""
