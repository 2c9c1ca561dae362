"""Questions, comments and claims of a request as reviewers see them: opened, with hidden characters written out.

Answers are untrusted like everything that a requester says, and secrets in them are masked like those in arguments.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlmodel import Session

from arap_service.domain.revealing import reveal
from arap_service.domain.visible import visible
from arap_service.requests.telling import names_of_marks
from arap_service.sealed import RowSeal
from arap_service.store import conversations, items
from arap_service.store.conversation_tables import Question
from arap_service.store.tables import Task
from arap_service.views import ArgumentView, CommentView, QuestionView, argument_view


def said_about(session: Session, task: Task, seal: RowSeal) -> dict[str, Any]:
    """The members `questions`, `comments` and `claimed_by` of the view of a request."""
    questions = conversations.questions_of(session, task.id)
    comments = conversations.comments_of(session, task.id)
    claim = conversations.claim_of(session, task.id) if task.status == "pending" else None
    marks = {question.asked_by for question in questions} | {comment.by for comment in comments}
    names = names_of_marks(session, marks | ({claim.by} if claim else set()))
    # An answer belongs to no item by itself, so what any of them calls a secret is one.
    templates = [
        task.template,
        *(row.template for row in items.items_of(session, [task.id] if task.item_count else [])),
    ]
    mask = [name for template in templates for name in template["mask"]]
    return {
        "questions": tuple(_question(question, seal, names=names, mask=mask) for question in questions),
        "comments": tuple(
            CommentView(
                at=comment.at,
                by=visible(names[comment.by]),
                text=visible(seal.open_at(f"comment:{comment.id}:text_sealed", comment.text_sealed)),
            )
            for comment in comments
        ),
        "claimed_by": None if claim is None else visible(names[claim.by]),
    }


def _question(question: Question, seal: RowSeal, *, names: Mapping[str, str], mask: Sequence[str]) -> QuestionView:
    asked = seal.open_at(f"question:{question.id}:asked_sealed", question.asked_sealed)
    answer: tuple[ArgumentView, ...] = ()
    if question.answer_sealed is not None:
        given = seal.open_at(f"question:{question.id}:answer_sealed", question.answer_sealed)
        answer = tuple(map(argument_view, reveal(given, allowed="whole", mask=mask).shown))
    return QuestionView(
        number=question.number,
        asked_at=question.asked_at,
        asked_by=visible(names[question.asked_by]),
        message=visible(asked["message"]),
        answered_at=question.answered_at,
        answer=answer,
    )
