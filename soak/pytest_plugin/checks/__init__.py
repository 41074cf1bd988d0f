"""The contract suite, one concern per file; `MemoryContract` puts them together."""
