"""A chat that a person can use over any store: a page, and a scripted assistant that knows only what is remembered."""
