"""A second, slow reading of the consistency model: what any checker of soak must, may and must not report."""
