"""``python -m megae`` is the command ``megae``; so is ``torchrun --nproc-per-node 2 -m megae``, in two processes."""

from __future__ import annotations

import sys

from megae.cli import main

if __name__ == "__main__":
    sys.exit(main())
