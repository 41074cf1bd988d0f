"""Stores that tests name by module and class."""
