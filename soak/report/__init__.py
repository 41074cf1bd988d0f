"""One result, told to people and to machines."""
