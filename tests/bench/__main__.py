"""`python -m tests.bench`: every benchmark, one JSON object a line on standard output, progress on standard error.

The whole run takes less than six minutes, and some more to store a million requests for `queue` (`ARAP_BENCH_ROWS` for
fewer); it ends every process that it has started. `--quick` shows that everything
works and gives no figure worth quoting; `--only NAME` takes one part.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.bench.calls import permitted_calls
from tests.bench.evaluation import beside_cerbos, beside_empty
from tests.bench.figures import Figure, machine
from tests.bench.handles import task_handles
from tests.bench.load import LoadFailed
from tests.bench.queue import queues
from tests.bench.servers import ServerFailed
from tests.bench.size import QUICK, WHOLE, Size
from tests.bench.starts import starts
from tests.bench.submission import submissions

Part = Callable[[Path, Size], Iterator[Figure]]
PARTS: Final[dict[str, Part]] = {
    "evaluation": beside_cerbos,
    "evaluation-bearer": beside_empty,
    "submission": submissions,
    "call": permitted_calls,
    "handle": task_handles,
    "start": starts,
    "queue": queues,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that were asked for; the status says whether all could be measured, not what came out."""
    parser = argparse.ArgumentParser(prog="tests.bench", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a short run, only to see that it works")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be repeated")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers are stopped and the folder is removed
    measured_on = machine()
    with tempfile.TemporaryDirectory(prefix="arap-bench-") as folder:
        for name in options.only or PARTS:
            print(f"measuring {name} ...", file=sys.stderr)
            own = Path(folder) / name
            own.mkdir()
            try:
                for figure in PARTS[name](own, QUICK if options.quick else WHOLE):
                    print(figure.line(measured_on), flush=True)
            except (LoadFailed, ServerFailed) as error:
                print(f"{name}: {error}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
