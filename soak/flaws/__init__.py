"""Planted bugs: memories as people write them on a bad day, one file for each incident."""
