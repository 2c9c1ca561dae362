"""Templates take macros with the context, which holds the clocks of the reader; design.md section 7."""

import re
from pathlib import Path

import pytest

TEMPLATES = sorted((Path(__file__).parents[2] / "templates").glob("*.html"))
BY_CLOCKS = {"macros.html", "request_parts.html"}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_moments_are_by_the_clocks_of_the_reader_on_every_page(path: Path) -> None:
    for taken, names in re.findall(r'{% from "([^"]+)" import ([^%]+)%}', path.read_text(encoding="utf-8")):
        assert taken not in BY_CLOCKS or names.rstrip().endswith(" with context"), names
