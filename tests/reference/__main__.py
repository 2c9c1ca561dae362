"""`python -m tests.reference`: play every flow of the reference chapter and write what happened into its pages."""

import sys
import tempfile
from pathlib import Path

import anyio

from arap_service.store import migrate
from tests.reference.flows import FLOWS
from tests.reference.pages import blocks_of, pages, phases
from tests.reference.world import recorded
from tools.marked import replace


async def played() -> dict[str, str]:
    """Every block of the chapter."""
    blocks = {"phases": phases()}
    for name, flow in FLOWS.items():
        print(f"playing: {name}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            database = f"sqlite:///{folder}/service.db"
            migrate.upgrade(database)
            async with recorded(Path(folder), database=database, **flow.limits) as world:
                await flow.play(world)
                blocks |= blocks_of(name, world.tape.exchanges)
    return blocks


def main() -> None:
    """Write the pages anew."""
    blocks = anyio.run(played)
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for name, block in blocks.items():
            if f"<!-- generated: {name} -->" in text:
                text = replace(text, name, block)
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
