"""`ptx-emulator`: run a command, such as `run SCRIPT`."""

import sys

from .garbage import imports

with imports():
    from .commands.main import main

if __name__ == "__main__":
    sys.exit(main())
