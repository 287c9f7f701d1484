"""``python -m mindrecipe.worker RUN_DIR``: one rank of a frozen run."""

from __future__ import annotations

import sys

from mindrecipe.worker import main

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m mindrecipe.worker RUN_DIR")
    sys.exit(main(sys.argv[1]))
