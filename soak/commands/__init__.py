"""What one can ask of soak at the command line: one file per command."""
