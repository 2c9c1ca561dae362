"""Runs one check and gives it a verdict in bounded time, whatever the subject or its deployment does."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace

import anyio

from blackbox_kit.causes import cause_of
from blackbox_kit.model import Check, Exchange, NotApplicable, NotKept, NotRun, Outcome, Verdict
from blackbox_kit.redaction import note as shown
from blackbox_kit.redaction import redacted


async def judged(
    check: Check,
    act: Callable[[], Awaitable[None]],
    exchanges: list[Exchange],
    *,
    seconds: float,
    clock: Callable[[], float],
) -> Outcome:
    """The outcome of `act`, which is the check with its surroundings; `exchanges` fills while it runs."""
    started = clock()
    verdict, note = Verdict.PASS, ""
    try:
        with anyio.fail_after(seconds):
            await act()
    except NotKept as error:
        verdict, note = Verdict.FAIL, str(error)
    except NotApplicable as error:
        verdict, note = Verdict.SKIPPED, str(error)
    except NotRun as error:
        verdict, note = Verdict.ERROR, str(error)
    except TimeoutError:
        verdict, note = Verdict.ERROR, f"the check had no end within {seconds:g} s"
    except Exception as error:  # noqa: BLE001 - whatever was sent, there is a verdict
        verdict, note = Verdict.ERROR, f"the check met what it did not expect ({cause_of(error)})"
    return Outcome(check, verdict, note, clock() - started, tuple(exchanges))


def without_secrets(outcome: Outcome, secrets: Collection[str]) -> Outcome:
    """The outcome as it may be shown."""
    kept = tuple(Exchange(redacted(one.sent, secrets), redacted(one.came, secrets)) for one in outcome.exchanges)
    return replace(outcome, note=shown(outcome.note, secrets), exchanges=kept)
