"""Docker images, made without a registry."""
