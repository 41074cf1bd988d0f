"""HTTP: what all our servers share, the status document, the page and its permissions."""
