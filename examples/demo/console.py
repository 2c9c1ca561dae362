"""What the demonstration prints: one line a step, with the time, saying what happens and what to do next.

It decides nothing and keeps nothing; colours appear on a terminal only.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

Clock = Callable[[], datetime]


class Narrator:
    """Prints the story; every line carries local time."""

    def __init__(self, console: Console, *, now: Clock) -> None:
        self._console = console
        self._now = now

    def _line(self, mark: str, text: str, style: str) -> None:
        stamp = f"{self._now():%H:%M:%S}"
        self._console.print(
            f"[dim]{stamp}[/dim] [{style}]{mark}[/{style}] {escape(text)}", highlight=False, soft_wrap=True
        )

    def step(self, text: str) -> None:
        """Something begins or goes on."""
        self._line("→", text, "cyan")

    def done(self, text: str) -> None:
        """Something ended as it should."""
        self._line("✓", text, "green")

    def refused(self, text: str) -> None:
        """Something was refused, as the story wants it."""
        self._line("✗", text, "yellow")

    def failed(self, text: str) -> None:
        """Something went wrong that should not have."""
        self._line("!", text, "bold red")

    def quote(self, text: str) -> None:
        """Output of a program or a server, indented and unchanged."""
        for line in text.rstrip("\n").splitlines():
            self._console.print(f"           [dim]│[/dim] {escape(line)}", highlight=False, soft_wrap=True)

    def box(self, title: str, lines: list[str]) -> None:
        """What a person has to do now."""
        body = "\n".join(escape(line) for line in lines)
        self._console.print(Panel(body, title=escape(title), border_style="bold magenta", expand=False))

    @contextmanager
    def chapter(self, title: str) -> Iterator[None]:
        """A titled part of the story."""
        self._console.print()
        self._console.rule(f"[bold]{escape(title)}[/bold]", align="left")
        yield
