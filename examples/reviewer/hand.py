"""`python -m examples.reviewer.hand CONTROL_FILE VERB MARKER`: carry out one verb of a control file by hand.

What the conformance suite does to a deployment, for a person at a terminal: approve, deny, expire, restart, count.
Status 1 when the verb is not offered or failed.
"""

import argparse
import sys
from pathlib import Path

import anyio

from mcp_gate.conformance.control import ControlInvalid, Hands, read_control
from mcp_gate.conformance.model import NotRun


def main() -> int:
    """Parse the command line, and do it."""
    parser = argparse.ArgumentParser(prog="python -m examples.reviewer.hand", description=__doc__)
    parser.add_argument("control", type=Path, help="the control file")
    parser.add_argument("verb", help="what to do")
    parser.add_argument("marker", help="what stands in the arguments of the call")
    options = parser.parse_args()
    try:
        hands = Hands(read_control(options.control), options.control.parent)
        if not hands.has(options.verb):
            print(f"the control file offers {', '.join(sorted(hands.control.verbs))}", file=sys.stderr)
            return 1
        said = anyio.run(lambda: hands.do(options.verb, marker=options.marker))
    except (ControlInvalid, NotRun) as error:
        print(error, file=sys.stderr)
        return 1
    print(said.strip() or "done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
