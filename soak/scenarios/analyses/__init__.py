"""One programme for every memory library: the same trials, the same judgement, one table."""
