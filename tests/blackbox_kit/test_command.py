"""What the commands of all suites share: which runs mean which exit status, and which files and URLs there can be."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from blackbox_kit.command import (
    FAILED,
    NOT_RUN,
    OK,
    USAGE,
    UsageWrong,
    Watching,
    checked_url,
    concluded,
    observed,
    status,
    writable,
    written,
)
from blackbox_kit.model import Check, Level, Outcome, Report, Suite, Verdict


async def _nothing(_: object) -> None:
    """Look at nothing."""


CHECKS = tuple(Check(f"x-{number}", "g", Level.MUST, _nothing) for number in range(3))
SUITE = Suite("x", "X", "x-", str, str)
AT = datetime(2026, 11, 30, tzinfo=UTC)


def report(*verdicts: Verdict) -> Report:
    outcomes = tuple(Outcome(check, verdict, "why") for check, verdict in zip(CHECKS, verdicts, strict=False))
    return Report("target", "memory", outcomes)


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ((Verdict.PASS, Verdict.SKIPPED), OK),
        ((Verdict.SKIPPED, Verdict.SKIPPED), NOT_RUN),
        ((), NOT_RUN),
        ((Verdict.PASS, Verdict.ERROR), NOT_RUN),
        ((Verdict.FAIL, Verdict.ERROR), FAILED),
    ],
)
def test_where_nothing_was_looked_at_nothing_is_said_to_be_kept(verdicts: tuple[Verdict, ...], code: int) -> None:
    assert status(report(*verdicts), strict=False) == code


def test_what_an_interrupted_run_did_not_come_to_was_not_run() -> None:
    async def interrupted(watching: Watching) -> None:
        watching.told(Outcome(CHECKS[0], Verdict.PASS))
        raise KeyboardInterrupt

    found = observed("x", CHECKS, interrupted)
    assert [one.verdict for one in found] == [Verdict.PASS, Verdict.ERROR, Verdict.ERROR]
    assert [one.check for one in found] == list(CHECKS)


def test_the_outcomes_of_a_whole_run_are_its_own() -> None:
    async def whole(watching: Watching) -> None:
        for check in CHECKS:
            watching.told(Outcome(check, Verdict.PASS))

    assert [(one.check, one.verdict) for one in observed("x", CHECKS, whole)] == [(one, Verdict.PASS) for one in CHECKS]


@pytest.mark.parametrize(("verdict", "code"), [(Verdict.PASS, USAGE), (Verdict.FAIL, FAILED)])
def test_a_report_that_cannot_be_written_is_told_and_hides_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verdict: Verdict, code: int
) -> None:
    files = {"json": tmp_path, "junit": None, "checks": None}
    assert concluded("x", SUITE, report(verdict), at=AT, strict=False, repeat=["x"], **files) == code
    assert f"x: the report {tmp_path} cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url", ["http://[", "http://", "http://127.0.0.1:99999", "http://x:0", "http://a b", "http://a\x1b[2J"]
)
def test_what_is_no_url_is_an_error_of_the_command_line(url: str) -> None:
    with pytest.raises(UsageWrong, match="no URL with a host and a port"):
        checked_url(url)


def test_a_file_that_cannot_be_written_is_named_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    for path in (tmp_path, tmp_path / "file" / "below.json"):
        with pytest.raises(UsageWrong, match=f"the report {path} cannot be written"):
            writable(None, path)
    writable(tmp_path / "file", tmp_path / "new.json", tmp_path / "deep" / "new.json")
    assert (tmp_path / "file").read_text() == "kept"
    assert not (tmp_path / "new.json").exists()


def test_one_report_that_cannot_be_written_takes_no_other_with_it(tmp_path: Path) -> None:
    complaints = written(
        SUITE, report(Verdict.PASS), at=AT, json=tmp_path, junit=tmp_path / "j.xml", checks=tmp_path / "c.json"
    )
    assert complaints == (f"the report {tmp_path} cannot be written (is a directory)",)
    assert (tmp_path / "j.xml").stat().st_size
    assert (tmp_path / "c.json").stat().st_size


def test_reports_take_whatever_a_server_says(tmp_path: Path) -> None:
    odd = Outcome(CHECKS[0], Verdict.FAIL, "\ud800 \x1b[2J")
    paths = {name: tmp_path / name for name in ("json", "junit", "checks")}
    assert written(SUITE, Report("target", "memory", (odd,)), at=AT, **paths) == ()
