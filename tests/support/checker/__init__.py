"""Sessions, stores and flaws in memory, for the checker alone."""
