"""What a run found, for people: one row a check, then for each that failed what was seen and how to repeat it."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mcp_gate.conformance.model import Check, Exchange, Level, Outcome, Report, Rule, Verdict

WORDS: Final[Mapping[Verdict, str]] = {
    Verdict.PASS: "pass",
    Verdict.FAIL: "FAIL",
    Verdict.SKIPPED: "skipped",
    Verdict.ERROR: "not run",
}
STYLES: Final[Mapping[Verdict, str]] = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.SKIPPED: "dim",
    Verdict.ERROR: "yellow",
}
LAST_EXCHANGES: Final = 3
LONGEST: Final = 1_000


def word(outcome: Outcome) -> str:
    """The verdict in a word; a SHOULD that is not kept is no failure."""
    is_advice = outcome.verdict is Verdict.FAIL and outcome.check.level is Level.SHOULD
    return "should" if is_advice else WORDS[outcome.verdict]


def show(report: Report, console: Console, *, repeat: Sequence[str]) -> None:
    """Print the table, the failures, and the sum; `repeat` is the command line that one check is added to."""
    table = Table(title=f"SEP-2848 against {escape(report.target)} over {report.transport}", show_lines=True)
    for name, ratio in (("check", 4), ("verdict", 1), ("sent", 3), ("came", 5), ("sentence", 6)):
        table.add_column(name, ratio=ratio, overflow="fold", no_wrap=name == "verdict", min_width=7)
    for outcome in report.outcomes:
        table.add_row(*_row(report.rules, outcome))
    console.print(table)
    for outcome in report.outcomes:
        if outcome.verdict in {Verdict.FAIL, Verdict.ERROR}:
            _details(report.rules, outcome, console, repeat)
    console.print(summary(report), markup=False, highlight=False)


def summary(report: Report) -> str:
    """One line with the numbers."""
    parts = [f"{report.count(Verdict.PASS)} passed", f"{report.count(Verdict.FAIL, level=Level.MUST)} failed"]
    if advice := report.count(Verdict.FAIL, level=Level.SHOULD):
        parts.append(f"{advice} SHOULD not kept")
    parts += [f"{report.count(Verdict.SKIPPED)} skipped", f"{report.count(Verdict.ERROR)} could not be run"]
    return f"{len(report.outcomes)} checks: {', '.join(parts)}"


def listed(checks: Sequence[Check], rules: Mapping[str, Rule], console: Console) -> None:
    """Print the catalogue: what each check is about and what it needs of the control file."""
    table = Table(show_lines=False)
    for name in ("check", "group", "level", "needs", "what is looked at"):
        table.add_column(name, overflow="fold", no_wrap=name in {"group", "level"})
    for check in checks:
        needs = ["--client"] if check.of_client else [*(f"call {name}" for name in check.calls), *check.verbs]
        table.add_row(check.id, check.group, str(check.level), ", ".join(needs), escape(check.run.__doc__ or ""))
    console.print(table)
    console.print(f"{len(checks)} checks of {len(rules)}", markup=False, highlight=False)


def _row(rules: Mapping[str, Rule], outcome: Outcome) -> Iterator[str]:
    yield escape(outcome.check.id.removeprefix("sep-2848-"))
    yield f"[{STYLES[outcome.verdict]}]{word(outcome)}[/]"
    yield escape(sent_in_short(outcome.exchanges))
    yield escape(outcome.note or came_in_short(outcome.exchanges))
    rule = rules.get(outcome.check.id)
    yield escape("" if rule is None else f"{rule.sentence} ({rule.source})")


def sent_in_short(exchanges: Sequence[Exchange]) -> str:
    """The methods, repetitions counted."""
    counted: list[list[Any]] = []
    for method in (str(one.sent.get("method")) for one in exchanges):
        if counted and counted[-1][0] == method:
            counted[-1][1] += 1
        else:
            counted.append([method, 1])
    return ", ".join(method if times == 1 else f"{method} ×{times}" for method, times in counted)


def came_in_short(exchanges: Sequence[Exchange]) -> str:
    """The kinds of the answers, repetitions left out."""
    kinds = [_kind(one.came) for one in exchanges]
    return ", ".join(kind for place, kind in enumerate(kinds) if place == 0 or kinds[place - 1] != kind)


def _kind(came: Any) -> str:
    answer = came[-1] if isinstance(came, list) and came else came
    if not isinstance(answer, dict):
        return "nothing"
    if isinstance(error := answer.get("error"), dict):
        return f"error {error.get('code')}"
    result = answer.get("result")
    if not isinstance(result, dict):
        return "no result"
    if isinstance(result.get("status"), str):
        return result["status"] if result.get("resultType") != "task" else f"task {result['status']}"
    return "isError" if result.get("isError") is True else str(result.get("resultType", "result"))


def _details(rules: Mapping[str, Rule], outcome: Outcome, console: Console, repeat: Sequence[str]) -> None:
    rule = rules.get(outcome.check.id)
    console.print()
    console.print(f"{word(outcome)}: {outcome.check.id}", style=STYLES[outcome.verdict], markup=False, highlight=False)
    lines = [outcome.note, *([] if rule is None else [f"{rule.source}: {rule.sentence}"])]
    for exchange in outcome.exchanges[-LAST_EXCHANGES:]:
        lines += [f"sent  {_cut(exchange.sent)}", f"came  {_cut(exchange.came)}"]
    lines.append(f"again: {shlex.join([*repeat, '--only', outcome.check.id.removeprefix('sep-2848-')])}")
    for line in lines:
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


def _cut(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
