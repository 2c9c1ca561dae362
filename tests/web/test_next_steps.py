"""What a decision brings about next, in words."""

from dataclasses import replace

import pytest

from arap_service.views import StepView
from arap_service.web.next_steps import after_approval, after_denial
from tests.web.samples import DETAIL


def step(name: str, status: str = "waiting", *, quorum: int = 1, approvals: int = 0, **more: object) -> StepView:
    given = {"denials": 0, "veto": 1, **more}
    return StepView(id=name, title=name.title(), quorum=quorum, approvals=approvals, status=status, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ((step("legal", quorum=3),), "After your approval, 2 more approvals are needed in Legal."),
        ((step("legal", quorum=3, approvals=1),), "After your approval, 1 more approval is needed in Legal."),
        ((step("legal"),), "Yours is the last approval that is needed: it can run from then on."),
        ((step("legal"), step("board")), "Your approval completes Legal. Board still has to agree as well."),
        (
            (step("legal"), step("board", "later", after=("Legal",)), step("owner", "later", after=("Board",))),
            "Your approval completes Legal. Then Board has to agree.",
        ),
        (
            (step("legal"), step("done", "completed")),
            "Yours is the last approval that is needed: it can run from then on.",
        ),
    ],
)
def test_the_step_that_comes_next_is_told(steps: tuple[StepView, ...], told: str) -> None:
    assert after_approval(replace(DETAIL, steps=steps, decides_in="legal")) == told


def test_a_denial_says_whether_it_ends_the_request() -> None:
    seen = replace(DETAIL, decides_in="legal")
    assert after_denial(replace(seen, steps=(step("legal"),))) == "Your denial ends the request."
    assert after_denial(replace(seen, steps=(step("legal", veto=3, denials=1),))) == (
        "It takes 1 more denial to end the request."
    )


def test_nothing_is_promised_to_who_may_not_decide() -> None:
    assert (after_approval(DETAIL), after_denial(DETAIL)) == ("", "")
