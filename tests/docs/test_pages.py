"""Every page with something to run is run by a test, and a block that nothing can run is noticed."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, Guide, blocks, load

RUN_HERE = {"conformance.md", "operating.md", "policy.md", "gate.md"}
RUN_ELSEWHERE = {
    "clients.md": "tests/node/test_clients.py",
    "resolvers.md": "tests/docs/test_resolvers.py",
    "reviewers.md": "tests/docs/test_reviewers.py",
    "simulator.md": "tests/simulator/test_documentation.py",
}
NOTHING_TO_RUN = {
    "architecture.md",
    "arap-conformance.md",
    "asvs.md",
    "desk.md",
    "security.md",
    "spec-feedback.md",
}


def test_every_page_is_run_or_has_nothing_to_run() -> None:
    pages = {page.name for page in DOCS.glob("*.md")}
    assert pages == RUN_HERE | RUN_ELSEWHERE.keys() | NOTHING_TO_RUN
    for name in NOTHING_TO_RUN:
        found = {block.language for block in blocks((DOCS / name).read_text(encoding="utf-8"))}
        assert found <= {"mermaid", ""}, name


@pytest.mark.parametrize("page", ["```sh\nfalse\n```\n", "```sh fails\ntrue\n```\n", "```yaml\na: 1\n```\n"])
def test_a_block_that_does_not_do_what_it_says_is_noticed(tmp_path: Path, page: str) -> None:
    with pytest.raises(AssertionError):
        list(Guide(tmp_path, {8400: 8400, 8500: 8500}).follow(page))


def test_a_file_that_nothing_reads_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("a: 1", encoding="utf-8")
    with pytest.raises(AssertionError, match="other"):
        load(tmp_path / "other.yaml")


def test_a_block_inside_a_list_is_found_without_its_indentation() -> None:
    (block,) = blocks("1. Do\n\n   ```sh\n   true\n   ```\n")
    assert (block.language, block.text) == ("sh", "true\n")
