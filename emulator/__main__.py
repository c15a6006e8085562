"""`python -m emulator`: run a script on the emulated B200, or show what it understands."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
