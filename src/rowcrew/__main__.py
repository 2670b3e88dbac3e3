"""python -m rowcrew is the command rowcrew. It does nothing else."""

import sys

from rowcrew.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
