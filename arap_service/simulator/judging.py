"""Whether an enforcement point kept the rules, judged from what it was seen to do. Pure: same evidence, same verdict.

A rule is kept, broken, or not seen: what the evidence cannot show is never counted as kept. Executions are known only
where the tool leaves traces or the enforcement point reports; see docs/simulator.md.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from arap_service.domain.behaviours import Endpoint
from arap_service.protocol.arap import TERMINAL
from arap_service.simulator.evidence import EXECUTED, Evidence, Finding, Verdict
from arap_service.simulator.observing import Observation

EARLY: Final = timedelta(milliseconds=50)
"""How much earlier than asked still counts as asked: clocks tick in steps."""
UNBELIEVABLE: Final = frozenset({"callback-forged", "callback-wrong-key", "callback-stale"})
_NO_ANSWER: Final = frozenset({"server-error", "cut", "garbage", "lost-answer", "rate-limited"})


Judge = Callable[[Evidence], tuple[Finding, str]]


@dataclass(frozen=True, slots=True)
class Check:
    """One rule as a scenario asks for it."""

    rule: str
    asks: str
    judge: Judge

    def __call__(self, evidence: Evidence) -> Verdict:
        """The verdict on `evidence`."""
        return Verdict(self.rule, self.asks, *self.judge(evidence))


def _unseen(what: str) -> tuple[Finding, str]:
    return Finding.UNSEEN, what


def _kept(what: str) -> tuple[Finding, str]:
    return Finding.KEPT, what


def _broken(what: str) -> tuple[Finding, str]:
    return Finding.BROKEN, what


def _keys(evidence: Evidence) -> tuple[Finding, str]:
    if not evidence.submissions:
        return _unseen("no submission")
    bare = sum("key" not in each.facts for each in evidence.submissions)
    return _broken(f"{bare} submissions without a key") if bare else _kept(f"{len(evidence.submissions)} with a key")


def _echoes(evidence: Evidence) -> tuple[Finding, str]:
    if not evidence.submissions:
        return _unseen("no submission")
    offers = {each.facts["offer"]: each for each in evidence.of(Endpoint.EVALUATION) if "offer" in each.facts}
    for each in evidence.submissions:
        offer = offers.get(each.facts.get("binding", ""))
        if offer is None or offer.seq > each.seq or offer.facts.get("evaluation") != each.facts.get("evaluation"):
            return _broken(f"submission {each.seq} does not echo a denial as it was given")
    return _kept("every submission echoes a denial")


def _repeats(evidence: Evidence) -> tuple[Finding, str]:
    lost = [each for each in evidence.submissions if each.status is None or each.fault in _NO_ANSWER]
    repeated = 0
    for each in lost:
        later = [other for other in evidence.submissions if other.seq > each.seq]
        if not later:
            continue
        same = (later[0].facts.get("key"), later[0].facts.get("body")) == (each.facts.get("key"), each.facts["body"])
        if not same:
            return _broken(f"submission {later[0].seq} follows {each.seq} under another key or with another body")
        repeated += 1
    if not lost:
        return _unseen("every submission was answered")
    return _kept("repeated under the same key") if repeated else _broken("never repeated")


def _one_key_each(evidence: Evidence) -> tuple[Finding, str]:
    bodies: dict[str, str] = {}
    for each in evidence.submissions:
        key, body = each.facts.get("key", ""), each.facts["body"]
        if bodies.setdefault(key, body) != body:
            return _broken(f"submission {each.seq} reuses the key of another body")
    if len(set(bodies.values())) < 2:
        return _unseen("one submission only")
    return _kept(f"{len(bodies)} keys for {len(set(bodies.values()))} submissions")


def _patience(evidence: Evidence) -> tuple[Finding, str]:
    waited = 0
    for before, poll in _successive_polls(evidence):
        asked = before.facts.get("retry_after")
        woken = any(before.seq < each.seq <= poll.seq and _accepted(each) for each in evidence.of("callback"))
        if asked is None or woken:
            continue
        if poll.at < before.answered_at + timedelta(seconds=asked) - EARLY:
            return _broken(
                f"poll {poll.seq} came {(poll.at - before.answered_at).total_seconds():.2f} s after {asked} s"
            )
        waited += 1
    return _kept(f"waited {waited} times") if waited else _unseen("no wait between two polls")


def _successive_polls(evidence: Evidence) -> Iterator[tuple[Observation, Observation]]:
    latest: dict[str | None, Observation] = {}
    for each in evidence.seen:
        if each.what == Endpoint.SUBMISSION and each.status is not None and each.task is not None:
            latest[each.task] = each
        elif each.what == Endpoint.STATUS:
            if each.task in latest:
                yield latest[each.task], each
            latest[each.task] = each


def _accepted(callback: Observation) -> bool:
    return callback.status is not None and 200 <= callback.status < 300


def _is_final(observation: Observation) -> bool:
    return observation.fault is None and observation.facts.get("task_status") in TERMINAL


def _stops(evidence: Evidence) -> tuple[Finding, str]:
    ended: set[str | None] = set()
    for each in evidence.polls:
        if each.task in ended:
            return _broken(f"poll {each.seq} came after the end was told")
        if _is_final(each):
            ended.add(each.task)
    return _kept("no poll after the end") if ended else _unseen("no poll was told the end")


def _unchanged(evidence: Evidence) -> tuple[Finding, str]:
    given = {each.facts["given"] for each in evidence.seen if "given" in each.facts}
    for each in evidence.presentations:
        if each.facts["presented"] not in given:
            return _broken(f"evaluation {each.seq} presents an approval that was not given like that")
    return _kept("presented as given") if evidence.presentations else _unseen("no approval was presented")


def _after_permit(evidence: Evidence) -> tuple[Finding, str]:
    if evidence.ran is None:
        return _unseen("nobody saw whether the tool ran")
    if evidence.ran and not evidence.permits:
        return _broken("the tool ran without a permit that names the approval")
    return _kept("ran after a permit" if evidence.ran else "did not run")


def _once(evidence: Evidence) -> tuple[Finding, str]:
    if evidence.ran is None:
        return _unseen("nobody saw whether the tool ran")
    return _broken(f"the tool ran {evidence.ran} times") if evidence.ran > 1 else _kept(f"ran {evidence.ran} times")


def _runs(evidence: Evidence) -> tuple[Finding, str]:
    if not evidence.permits:
        return _broken("no permit was asked for") if evidence.ran == 0 else _unseen("no permit")
    if evidence.ran is None:
        return _unseen("nobody saw whether the tool ran")
    return _kept("the tool ran") if evidence.ran else _broken("permitted, and the tool did not run")


def _never(evidence: Evidence) -> tuple[Finding, str]:
    if evidence.ran:
        return _broken(f"the tool ran {evidence.ran} times")
    if evidence.ran == 0:
        return _kept("the tool did not run")
    return _unseen("nobody saw whether the tool ran")


def _waits(evidence: Evidence) -> tuple[Finding, str]:
    told = [each for each in evidence.presentations if each.facts.get("next_action") == "retry"]
    for each in told:
        again = [other for other in evidence.presentations if other.seq > each.seq]
        if not again:
            return _broken("never asked again")
        if again[0].facts["presented"] != each.facts["presented"]:
            return _broken(f"evaluation {again[0].seq} presents another approval")
        if again[0].at < each.answered_at + timedelta(seconds=each.facts.get("wait", 0)) - EARLY:
            return _broken(f"evaluation {again[0].seq} came before {each.facts.get('wait')} s were over")
    return _kept(f"asked again {len(told)} times") if told else _unseen("no answer said retry")


def _anew(evidence: Evidence) -> tuple[Finding, str]:
    found = list(_chained(evidence))
    for told, made in found:
        if made is None:
            return _broken("never submitted anew")
        before = {each.facts.get("key") for each in evidence.submissions if each.seq < told.seq}
        if made.facts.get("key") in before:
            return _broken(f"submission {made.seq} uses a key again")
    return _kept("submitted under a new key") if found else _unseen("no answer said request")


def _fresh(evidence: Evidence) -> tuple[Finding, str]:
    found = [(told, made) for told, made in _chained(evidence) if made is not None]
    for told, made in found:
        if made.facts.get("binding") != told.facts.get("offer"):
            return _broken(f"submission {made.seq} does not rest on the offer of evaluation {told.seq}")
    return _kept("rests on the new offer") if found else _unseen("nothing was submitted anew")


def _chained(evidence: Evidence) -> Iterator[tuple[Observation, Observation | None]]:
    for each in evidence.presentations:
        if each.facts.get("next_action") == "request":
            yield each, next((other for other in evidence.submissions if other.seq > each.seq), None)


def _gives_up(evidence: Evidence) -> tuple[Finding, str]:
    told = [each for each in evidence.presentations if each.facts.get("next_action") == "none"]
    for each in told:
        if any(
            other.facts["presented"] == each.facts["presented"]
            for other in evidence.presentations
            if other.seq > each.seq
        ):
            return _broken("the approval was presented again")
    return _kept("not asked again") if told else _unseen("no answer said none")


def _dropped(evidence: Evidence) -> tuple[Finding, str]:
    refused = [each for each in evidence.presentations if each.facts.get("next_action") in {"request", "none"}]
    for each in refused:
        again = (other for other in evidence.presentations if other.seq > each.seq)
        if any(other.facts["presented"] == each.facts["presented"] for other in again):
            return _broken("the refused approval was presented again")
    return _kept("the approval was dropped") if refused else _unseen("no approval was refused")


def _unbelieved(evidence: Evidence) -> tuple[Finding, str]:
    lies = [each for each in evidence.of("callback") if each.fault in UNBELIEVABLE]
    if not lies:
        return _unseen("no callback was sent; is one registered?")
    if evidence.ran or evidence.presentations:
        return _broken("a callback that proves nothing was acted upon")
    taken = [each for each in lies if _accepted(each)]
    if taken:
        return _broken(f"{taken[0].fault} was answered with {taken[0].status}")
    return _kept(f"{len(lies)} refused")


def _own_source(evidence: Evidence) -> tuple[Finding, str]:
    if evidence.of("decoy"):
        return _broken("the address that a callback named was asked")
    misled = [each for each in evidence.of("callback") if each.fault == "callback-misleading" and _accepted(each)]
    return _kept("the stored address was asked") if misled else _unseen("no such callback was accepted")


def _by_polling(evidence: Evidence) -> tuple[Finding, str]:
    if not any("callback" in each.facts for each in evidence.submissions):
        return _unseen("no callback was asked for")
    return (
        _kept("learned by polling") if any(_is_final(each) for each in evidence.polls) else _broken("never found out")
    )


def _ignores_late(evidence: Evidence) -> tuple[Finding, str]:
    late = [each for each in evidence.of("callback") if each.fault in {"callback-late", "callback-out-of-order"}]
    if not late:
        return _unseen("no late callback was sent; is one registered?")
    for each in evidence.after(late[0]):
        if each.what == Endpoint.SUBMISSION or "presented" in each.facts:
            return _broken(f"{each.what} {each.seq} came of a callback about what was over")
    return _kept("nothing came of it")


def _no_permit(evidence: Evidence) -> tuple[Finding, str]:
    bad = [each for each in evidence.of(Endpoint.EVALUATION) if each.fault is not None]
    if not bad:
        return _unseen("no evaluation")
    if evidence.ran:
        return _broken("no answer was taken for a permit")
    if evidence.executions is None:
        return _unseen("nobody saw whether the tool ran")
    return _kept("no answer was no permit")


def _no_offer(evidence: Evidence) -> tuple[Finding, str]:
    if not any(each.fault is not None for each in evidence.of(Endpoint.EVALUATION)):
        return _unseen("no evaluation")
    return _broken("submitted without a denial") if evidence.submissions else _kept("nothing was submitted")


def _keeps_asking(evidence: Evidence) -> tuple[Finding, str]:
    bad = [each for each in evidence.polls if each.fault is not None]
    for each in bad:
        if not any(other.task == each.task for other in evidence.polls if other.seq > each.seq):
            return _broken(f"gave up after {each.fault}")
    return _kept(f"asked again after {len(bad)} bad answers") if bad else _unseen("no poll")


def _not_granted(evidence: Evidence) -> tuple[Finding, str]:
    odd = [each for each in evidence.polls if each.fault == "wrong-type"]
    if not odd:
        return _unseen("no poll")
    given = any("given" in each.facts and each.fault is None for each in evidence.seen)
    if (evidence.ran or evidence.presentations) and not given:
        return _broken("an unknown status was taken for an approval")
    return _kept("an unknown status was no approval")


def _withdraws(evidence: Evidence) -> tuple[Finding, str]:
    sent = [each for each in evidence.of(Endpoint.CANCEL) if each.status is not None]
    return _kept("cancelled at the service") if sent else _broken("never cancelled at the service")


def _dead_after_cancel(evidence: Evidence) -> tuple[Finding, str]:
    sent = evidence.of(Endpoint.CANCEL)
    if not sent:
        return _unseen("nothing was cancelled")
    if evidence.ran or any("presented" in each.facts for each in evidence.after(sent[0])):
        return _broken("went on after the cancellation")
    return _kept("nothing came after it")


def _reported(evidence: Evidence) -> tuple[Finding, str]:
    if not evidence.reports:
        return _unseen("no report; it is ours, not the profile's")
    taken = [(each.task, each.facts.get("generation")) for each in evidence.reports if each.status == 204]
    if len(set(taken)) < len(taken):
        return _broken("a report that was accepted was sent again")
    ran = sum(each.facts.get("disposition") in EXECUTED for each in evidence.reports if each.status == 204)
    if evidence.executions is not None and ran != min(evidence.executions, 1):
        return _broken(f"{ran} executions were reported, the tool ran {evidence.executions} times")
    return _kept(f"{len(taken)} reported")


_TABLE: Final = (
    ("key", Check("PEP-50", "sends an Idempotency-Key with every submission", _keys)),
    ("echo", Check("PEP-35", "echoes the denial that a submission rests on", _echoes)),
    ("repeat", Check("PEP-57", "repeats an unanswered submission under its key, unchanged", _repeats)),
    ("own-key", Check("PEP-61", "has a key of its own for each submission", _one_key_each)),
    ("patience", Check("PEP-45", "polls no earlier than Retry-After", _patience)),
    ("stop", Check("PEP-45", "stops polling when it is told the end", _stops)),
    ("unchanged", Check("PEP-40", "presents the approval as it was given", _unchanged)),
    ("permit-first", Check("PEP-98", "runs the tool only after a permit that rests on the approval", _after_permit)),
    ("once", Check("PEP-66", "runs the tool at most once", _once)),
    ("runs", Check("PEP-99", "runs the tool when that is permitted", _runs)),
    ("never", Check("PEP-90", "does not run the tool without an approval", _never)),
    ("retry", Check("PEP-100", "waits and asks again when told to retry", _waits)),
    ("anew", Check("PEP-101", "submits anew under a new key when told to request", _anew)),
    ("fresh", Check("PEP-102", "rests the new submission on the new offer", _fresh)),
    ("give-up", Check("PEP-103", "asks no more when told none", _gives_up)),
    ("dropped", Check("PEP-92", "drops an approval that was refused for good", _dropped)),
    ("unbelieved", Check("PEP-93", "refuses callbacks that prove nothing", _unbelieved)),
    ("own-source", Check("PEP-94", "asks the status endpoint that it knows, not one in a callback", _own_source)),
    ("late", Check("PEP-92", "does nothing about callbacks for what is over", _ignores_late)),
    ("polling", Check("PEP-96", "polls although callbacks are registered", _by_polling)),
    ("no-permit", Check("PEP-13", "takes no answer of the decision point for no permit", _no_permit)),
    ("no-offer", Check("PEP-31", "submits only after the decision false", _no_offer)),
    ("keeps-asking", Check("PEP-47", "keeps polling when the status cannot be had", _keeps_asking)),
    ("not-granted", Check("PEP-42", "takes an unknown status for no approval", _not_granted)),
    ("withdraws", Check("PEP-115", "cancels at the service", _withdraws)),
    ("dead", Check("PEP-118", "does nothing more after cancelling", _dead_after_cancel)),
    ("reported", Check("PEP-136", "reports what became of the approval, once", _reported)),
)  # fmt: skip
CHECKS: Final[Mapping[str, Check]] = MappingProxyType(dict(_TABLE))
"""Every check by the name that scenarios use."""


def judge(names: Sequence[str], evidence: Evidence) -> tuple[Verdict, ...]:
    """The verdicts of these checks on `evidence`, in their order."""
    return tuple(CHECKS[name](evidence) for name in names)
