"""What self-test, recovery matrix and analyses have in common: scenarios made side by side, each in its own process."""
