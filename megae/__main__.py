"""``python -m megae`` is the command ``megae``."""

from __future__ import annotations

import sys

from megae.cli import main

if __name__ == "__main__":
    sys.exit(main())
