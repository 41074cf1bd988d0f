"""Programs, not modules: each is run by the interpreter of its own environment, and never imported."""
