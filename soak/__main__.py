"""`python -m soak` is the same as `soak`."""

from __future__ import annotations

import sys

from soak.cli import main

if __name__ == "__main__":
    sys.exit(main())
