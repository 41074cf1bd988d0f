"""One result, for people and for machines."""
