"""`python -m harness`."""

import signal
import sys

INTERRUPT = signal.getsignal(signal.SIGINT)

try:
    # Ctrl-C ends the process at once during these imports, because Python loses an exception in a callback of theirs.
    if INTERRUPT is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from harness.cli import main

    signal.signal(signal.SIGINT, INTERRUPT)
    code = main()
except KeyboardInterrupt:
    print("interrupted; `make runs` lists the runs that were started", file=sys.stderr)
    code = 130  # as a shell reports SIGINT

sys.exit(code)
