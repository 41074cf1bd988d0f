"""One run from beginning to end: starts servers, supervises load and verifier, reports, drains at the end."""
