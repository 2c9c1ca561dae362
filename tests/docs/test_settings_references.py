"""The settings references of the guides are those of the code."""

import pytest
from pydantic import BaseModel

from tools.settings_tables import DOCS, REFERENCES, Disagreement, Reference, render


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.page.stem)
def test_the_table_of_the_page_is_that_of_the_code(reference: Reference) -> None:
    page = reference.page.read_text(encoding="utf-8")
    assert render(page, reference) == page, "run python -m tools.settings_tables"


class Inner(BaseModel):
    """A part."""

    many: tuple[int, ...] = ()


class Outer(BaseModel):
    """A whole."""

    name: str
    inner: dict[str, Inner] = {}


MEANINGS = {"Outer.name": "a name", "Outer.inner": "parts", "Inner.many": "numbers"}


def test_a_table_has_a_row_for_every_key_down_to_the_parts() -> None:
    rows = Reference(Outer, MEANINGS, DOCS).table().splitlines()[2:]
    assert rows == [
        "| `name` | text | required | a name |",
        "| `inner` | by name |  | parts |",
        "| `inner.NAME.many` | list of whole numbers |  | numbers |",
    ]


@pytest.mark.parametrize("lost", sorted(MEANINGS))
def test_a_setting_without_a_meaning_is_refused(lost: str) -> None:
    meanings = {key: said for key, said in MEANINGS.items() if key != lost}
    with pytest.raises(Disagreement, match=lost):
        Reference(Outer, meanings, DOCS).table()


def test_a_meaning_without_a_setting_is_refused() -> None:
    with pytest.raises(Disagreement, match=r"Outer\.gone"):
        Reference(Outer, MEANINGS | {"Outer.gone": "nothing"}, DOCS).table()
