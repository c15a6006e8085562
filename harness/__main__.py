"""`python -m harness`."""

import sys

try:
    from harness.cli import main

    code = main()
except KeyboardInterrupt:
    print("interrupted; `make runs` lists the runs that were started", file=sys.stderr)
    code = 130  # as a shell reports SIGINT

sys.exit(code)
