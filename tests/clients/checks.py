"""Checks by name, run one after the other: each prints `ok NAME JSON` with what the client saw.

The first that fails ends the program with exit code 1. What is expected of a server beyond the client's own demands is
the tests' business, which read these lines.
"""

import json
import sys


class Failed(Exception):
    """What did not hold."""


def expect(condition, message):
    if not condition:
        raise Failed(message)


def run(checks, names, arguments, errors):
    """Runs the checks of these names; `errors` are the exceptions of the client that mean a failed check."""
    unknown = [name for name in names if name not in checks]
    if unknown:
        sys.exit(f"unknown checks {unknown}, known are {', '.join(checks)}")
    for name in names:
        try:
            seen = checks[name](*arguments)
        except (Failed, errors) as error:
            sys.exit(f"FAILED {name}: {type(error).__name__}: {error}")
        print(f"ok {name} {json.dumps(seen)}", flush=True)


def raised(error):
    """An error of a client as what programs look at."""
    return {
        "class": type(error).__name__,
        "status": getattr(error, "status_code", None),
        "code": getattr(error, "code", None),
        "type": getattr(error, "type", None),
        "message": str(error),
    }
