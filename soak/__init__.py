"""soak: simulated chat sessions against real memory stores, verified continuously."""

__version__ = "0.2.0"
