"""What a service supports, as far as it shows without anybody's decision; what does not show comes with the reason."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio

from arap_service.conformance.seeing import handled
from arap_service.conformance.trial import Denial, Trial
from blackbox_kit.model import Json, NotRun

NO_BULK: Final = "no-bulk"
Look = Callable[[Trial], Awaitable[set[str]]]


@dataclass(frozen=True, slots=True)
class Support:
    """The profiles that were seen; `unseen` are those that could not be looked for, each with the reason."""

    profiles: frozenset[str] = frozenset()
    unseen: Mapping[str, str] = field(default_factory=dict)


def declared(profiles: Collection[str]) -> Support:
    """What the control file or the command line says."""
    return Support(frozenset(profiles) | (set() if "bulk" in profiles else {NO_BULK}))


async def supported(trial: Trial, wanted: Collection[str]) -> Support:
    """What shows of the profiles that are wanted, within the time of one check."""
    found = {"state"} | ({"callbacks"} if trial.control.callbacks is not None else set())
    if "requestable" not in trial.control.questions:
        return Support(frozenset(found))
    seconds = trial.control.seconds.check
    unseen = {name: f"it did not show within {seconds:g} s" for names, _ in LOOKS for name in names}
    with anyio.move_on_after(seconds):
        for names, look in LOOKS:
            if "bulk" in names and not set(names) & set(wanted):
                continue
            try:
                found |= await look(trial)
            except NotRun as error:
                unseen |= dict.fromkeys(names, str(error))
            except Exception as error:  # noqa: BLE001 - whatever the service sends, the checks are told
                unseen |= dict.fromkeys(names, f"the suite met what it did not expect ({type(error).__name__})")
            else:
                unseen = {name: why for name, why in unseen.items() if name not in names}
    return Support(frozenset(found), unseen)


async def _token(trial: Trial) -> set[str]:
    return {"token"} if (await trial.denied()).token is not None else set()


async def _cancellation(trial: Trial) -> set[str]:
    task = trial.accepted(await trial.submit(await trial.denied()))
    return {"cancellation"} if task.cancel_url is not None else set()


async def _id(trial: Trial) -> set[str]:
    denial = await trial.denied()
    if denial.evaluation_id is None:
        return set()
    answer = handled(await trial.submit(denial, denial.body_by_id()), "a submission with the evaluation_id alone")
    return {"id"} if answer.is_success else set()


def _offered(question: str, member: str, names: set[str]) -> Look:
    async def look(trial: Trial) -> set[str]:
        if question not in trial.control.questions:
            return set()
        return names if member in (await trial.denied(question)).offer else set()

    return look


async def _bulk(trial: Trial) -> set[str]:
    items = handled(await trial.submit(*await bundle(trial)), "a submission of two items")
    return {"bulk"} if items.is_success and (items.task or {}).get("items") is not None else {NO_BULK}


LOOKS: Final[tuple[tuple[tuple[str, ...], Look], ...]] = (
    (("token",), _token),
    (("cancellation",), _cancellation),
    (("id",), _id),
    (("forms",), _offered("form", "request_schema_url", {"forms"})),
    (("catalogs",), _offered("catalog", "request_catalogs_url", {"forms", "catalogs"})),
    (("bulk", NO_BULK), _bulk),
)


async def bundle(trial: Trial) -> tuple[Denial, Json]:
    """Two denials in one request, each item with its own; the first denial says where it goes."""
    first = await trial.denied()
    second = await trial.denied()
    return first, bundled(first, second)


def bundled(*denials: Denial) -> Json:
    """The submission of several denials."""
    bodies = [denial.body() for denial in denials]
    items = [{name: body[name] for name in ("resource", "action", "denial")} for body in bodies]
    rest = {name: bodies[0][name] for name in ("subject", "context", "requested_access") if name in bodies[0]}
    return rest | {"items": items}
