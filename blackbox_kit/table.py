"""What a run found, for people: one row a check, then for each that failed what was seen and how to repeat it."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from blackbox_kit.model import Check, Exchange, Level, Outcome, Report, Rule, Suite, Verdict
from blackbox_kit.redaction import visible

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


def show(suite: Suite, report: Report, console: Console, *, repeat: Sequence[str]) -> None:
    """Print the table, the failures, and the sum; `repeat` is the command line that one check is added to."""
    table = Table(
        title=f"{suite.title} against {escape(visible(report.target))} over {report.transport}", show_lines=True
    )
    for name, ratio in (("check", 4), ("verdict", 1), ("sent", 3), ("came", 5), ("sentence", 6)):
        table.add_column(name, ratio=ratio, overflow="fold", no_wrap=name == "verdict", min_width=7)
    for outcome in report.outcomes:
        table.add_row(*_row(suite, report.rules, outcome))
    console.print(table)
    for outcome in report.outcomes:
        if outcome.verdict in {Verdict.FAIL, Verdict.ERROR}:
            _details(suite, report.rules, outcome, console, repeat)
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
        needs, about = ", ".join(check.needs), escape(check.run.__doc__ or "")
        table.add_row(check.id, check.group, str(check.level), needs, about)
    console.print(table)
    console.print(f"{len(checks)} checks of {len(rules)}", markup=False, highlight=False)


def _row(suite: Suite, rules: Mapping[str, Rule], outcome: Outcome) -> Iterator[str]:
    yield escape(suite.short(outcome.check.id))
    yield f"[{STYLES[outcome.verdict]}]{word(outcome)}[/]"
    yield escape(visible(sent_in_short(suite, outcome.exchanges)))
    yield escape(visible(outcome.note or came_in_short(suite, outcome.exchanges)))
    rule = rules.get(outcome.check.id)
    yield escape("" if rule is None else f"{rule.sentence} ({rule.source})")


def sent_in_short(suite: Suite, exchanges: Sequence[Exchange]) -> str:
    """What was asked, repetitions counted."""
    counted: list[list[Any]] = []
    for method in (suite.asked(one.sent) for one in exchanges):
        if counted and counted[-1][0] == method:
            counted[-1][1] += 1
        else:
            counted.append([method, 1])
    return ", ".join(method if times == 1 else f"{method} ×{times}" for method, times in counted)


def came_in_short(suite: Suite, exchanges: Sequence[Exchange]) -> str:
    """The kinds of the answers, repetitions left out."""
    kinds = [suite.came(one.came) for one in exchanges]
    return ", ".join(kind for place, kind in enumerate(kinds) if place == 0 or kinds[place - 1] != kind)


def _details(
    suite: Suite, rules: Mapping[str, Rule], outcome: Outcome, console: Console, repeat: Sequence[str]
) -> None:
    rule = rules.get(outcome.check.id)
    console.print()
    console.print(f"{word(outcome)}: {outcome.check.id}", style=STYLES[outcome.verdict], markup=False, highlight=False)
    lines = [outcome.note, *([] if rule is None else [f"{rule.source}: {rule.sentence}"])]
    for exchange in outcome.exchanges[-LAST_EXCHANGES:]:
        lines += [f"sent  {_cut(exchange.sent)}", f"came  {_cut(exchange.came)}"]
    lines.append(f"again: {shlex.join([*repeat, '--only', suite.short(outcome.check.id)])}")
    for line in lines:
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


def _cut(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
