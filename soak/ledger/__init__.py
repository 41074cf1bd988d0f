"""The ledger: the independent record of what was attempted and what was acknowledged."""
