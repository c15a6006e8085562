"""The end of each program that is sent to a target as text (`remote.program`). It works on any Python 3."""

import errno
import json
from typing import Any


def answer(call: Any, request: str) -> None:
    """Call a function with the fields of a JSON object, and print its result as JSON.

    If the function exits with a message, or raises OSError, the answer has "refused", with the reason.
    """
    try:
        found = call(**json.loads(request))
    except SystemExit as refusal:
        found = {"refused": str(refusal)}
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        found = {"refused": "the disk there is full: free some space, or make clean-runs" if full else str(error)}
    print(json.dumps(found))
