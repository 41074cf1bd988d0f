"""The status page: what a browser shows while a soak runs."""
