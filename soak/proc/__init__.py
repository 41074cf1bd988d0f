"""Processes and files: start, watch, end, write in one step, lock. It knows nothing of servers or soaks."""
