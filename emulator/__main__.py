"""`python -m emulator`: run a script on the emulated B200, or show the supported instructions."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
