"""Real memory libraries behind the http contract, each a script with an environment of its own."""
