"""The sidecar: follows the ledger, reads the stores, judges, confirms, and keeps the evidence."""
