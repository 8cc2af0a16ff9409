"""``python -m posenc_tutorial.exercises grade ...``."""

from __future__ import annotations

import sys

from .grade import main

if __name__ == "__main__":
    sys.exit(main())
