"""The servers a soak runs against: local processes from wheels, containers, or servers that already run."""
