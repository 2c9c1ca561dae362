"""docs/policy.md: every rules file loads and has a case, every case holds, and every command does what it says."""

from pathlib import Path

import pytest

from arap_service.domain.policy import Policy
from tests.docs.pages import DOCS, Guide, blocks, load

PAGE = (DOCS / "policy.md").read_text(encoding="utf-8")
RULES = [
    block.words[0] for block in blocks(PAGE) if block.language == "yaml" and block.words[0].endswith(".rules.yaml")
]
COMMANDS = [block.text for block in blocks(PAGE) if block.language == "sh"]


@pytest.mark.parametrize("name", RULES)
def test_every_rules_file_of_the_page_is_put_to_a_case(name: str) -> None:
    (tested,) = (text for text in COMMANDS if f"arap policy test {name} " in text)
    folder = tested.partition(f"arap policy test {name} ")[2].split()[0]
    assert any(block.words[0].startswith(f"{folder}/") for block in blocks(PAGE) if block.words)


@pytest.mark.timeout(600)
def test_every_command_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    said = "".join(printed for _, printed in Guide(tmp_path, {8400: 8400, 8500: 8500}).follow(PAGE))
    assert "2 cases hold." in said
    assert "reading" in said
    assert "/rules/0/when" in said
    assert isinstance(load(tmp_path / "template.rules.yaml"), Policy)
