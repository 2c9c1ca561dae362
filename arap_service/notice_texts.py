"""What a notice says, as subject, text and HTML from templates: a reviewer's words, and a link that opens a page.

Never an argument, a justification or a reason; the sentence of the effect only where the template of the request
allows it. What is taken from a request has its hidden characters written out, stands on one line, and holds nothing
that a mail program would make a link of. Nothing is sent here.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import cache
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from arap_service.domain.notices import TO_DECIDERS, TO_REQUESTERS, Message, NoticeKind
from arap_service.domain.visible import visible
from arap_service.protocol.sealing import KeyRing
from arap_service.records import Part, task_seal
from arap_service.requests.telling import bundle_sentence, effect_sentence
from arap_service.store.notice_tables import Announcement
from arap_service.store.tables import Task
from arap_service.web import words
from arap_service.web.rendering import template_folder

_LONGEST: Final = 400
# Mail programs make a link of a bare name as well, of `pay.example/now` as of `WWW.pay.example`; an amount has digits.
_DOT: Final = re.compile(r"(?<=\S)[.\u3002\uff0e\uff61](?=[^\W\d_])")
PLACES: Final[Mapping[str, str]] = {
    "review_due": "/desk/reviews",
    "delivery_failed": "/desk/deliveries",
    "password_changed": "/desk/account",
}
"""Pages that are about no single request; the other kinds are told with the page of their own."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that somebody is told: what a template may say of it."""

    kind: str
    title: str
    status: str
    link: str | None
    sentence: str | None = None
    deadline: datetime | None = None
    subject: str = ""


def line_of(told: Announcement, task: Task | None, *, base: str, ring: KeyRing) -> Line:
    """What may be said of an announcement; `task` is what it is about, None for what is about no request."""
    kind = NoticeKind(told.kind)
    if task is None:
        return Line(kind, "", "", base + PLACES.get(kind, "/desk"))
    single = not task.item_count
    title = str(task.template["title"]) if single else "Several things together"
    sentence = None
    if task.template.get("notify") == "sentence":
        whole = effect_sentence(Part(task), task_seal(task, ring)) if single else bundle_sentence(task, task.item_count)
        sentence = _plain(whole)
    return Line(
        kind,
        visible(title),
        task.status,
        base + (PLACES.get(kind) or f"/desk/{'my' if kind in TO_REQUESTERS else 'requests'}/{task.id}"),
        sentence,
        task.pending_until if kind in TO_DECIDERS else None,
    )


def message_of(lines: Sequence[Line], *, zone: tzinfo, preferences: str | None) -> Message:
    """One message about one or several things; moments are told in `zone`, `preferences` is where to change that."""
    local = [
        replace(line, deadline=None if line.deadline is None else line.deadline.astimezone(zone)) for line in lines
    ]
    if len(local) == 1:
        return _rendered(local[0].kind, n=local[0], preferences=preferences)
    named = [replace(line, subject=_rendered(line.kind, n=line, preferences=None).subject) for line in local]
    return _rendered("digest", lines=named, preferences=preferences)


def trial_message() -> Message:
    """What an administrator sends to see whether a channel works."""
    return _rendered("trial")


def _rendered(name: str, **values: Any) -> Message:
    subject, _, text = _engine().get_template(f"notices/{name}.txt").render(values).partition("\n")
    html = _engine().get_template(f"notices/{name}.html").render(values)
    return Message(" ".join(subject.split())[:_LONGEST], text.strip() + "\n", html)


def _plain(text: str) -> str:
    line = " ".join(visible(text).split())
    line = line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
    return _DOT.sub("[.]", line.replace("://", ":[//]").replace("@", "[at]"))


def _shown(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _engine() -> Environment:
    engine = Environment(
        loader=FileSystemLoader(template_folder()),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    engine.filters.update({"absolute": words.absolute, "status": words.status})
    return engine
