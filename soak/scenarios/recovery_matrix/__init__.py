"""What each configuration of a server really loses in each fault, measured and held against what it promises."""
