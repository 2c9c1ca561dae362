"""Replaces the marked blocks of a page: what stands between `<!-- generated: NAME -->` and `<!-- end -->`."""

import re


def replace(page: str, name: str, text: str) -> str:
    """`page` with `text` as its block `name`.

    Raises:
        ValueError: The page does not have exactly one such block.
    """
    pattern = re.compile(rf"(<!-- generated: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    blocks = list(pattern.finditer(page))
    if len(blocks) != 1:
        raise ValueError(f"the page needs exactly one block {name!r}")
    (block,) = blocks
    return f"{page[: block.start()]}{block[1]}{text}\n{block[2]}{page[block.end() :]}"
