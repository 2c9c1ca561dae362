"""`python -m examples.reviewer.gate --folder FOLDER`: our gate before the tools, on stdio, or on HTTP by its settings.

The folder is prepared by `python -m examples.reviewer`.
"""

import argparse
import os
from pathlib import Path

import anyio

from examples.reviewer.approvals import BookedApprovals
from examples.reviewer.book import Book
from mcp_gate import load_settings
from mcp_gate.logs import configure_logging
from mcp_gate.proxy import build, serve
from mcp_gate.runtime import Parts


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(prog="python -m examples.reviewer.gate", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--die-with-stdin", action="store_true", help="stop when standard input ends")
    options = parser.parse_args()
    configure_logging()
    folder: Path = options.folder.resolve()
    os.environ["MCP_GATE_DATABASE"] = f"sqlite:///{folder / 'gate.sqlite'}"
    settings = load_settings(folder / "gate.yaml")
    gateway = build(settings, parts=Parts(backend=BookedApprovals(Book(folder))))
    anyio.run(lambda: serve(gateway, die_with_stdin=options.die_with_stdin))


if __name__ == "__main__":
    main()
