"""The trials, one a file, in the order in which they are made."""
