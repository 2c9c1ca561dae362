"""Group `client`: what a client does with a task of a scripted server; needs `--client`."""

from typing import Final

from mcp_gate.conformance.client_server import Script
from mcp_gate.conformance.model import Check, NotApplicable, NotKept, NotRun
from mcp_gate.conformance.trial import Trial, rule

GROUP: Final = "client"
UNHEARD_OF: Final = "settled-by-treaty"


@rule("client-unknown-disposition", GROUP, calls=(), of_client=True)
async def client_unknown_disposition(trial: Trial) -> None:
    """A client that meets a disposition it does not know leaves the call as it is."""
    text = "The call came to an end that this client has no word for."
    script = await _played(trial, Script(UNHEARD_OF, text, is_error=True))
    if not script.is_over:
        raise NotRun("the client did not wait for the end of the task")
    if script.asked("tools/call") > 1:
        raise NotKept(f"the client made the call {script.asked('tools/call')} times; its outcome was not known to it")


@rule("client-tasks-alone", GROUP, calls=(), of_client=True)
async def client_tasks_alone(trial: Trial) -> None:
    """A client that knows tasks follows one to its end, and needs to know nothing else."""
    script = await _played(trial, Script("approved-executed", "The tool ran: 7 sent to acct-1.", is_error=False))
    if not script.is_over:
        looks = script.looks
        raise NotKept(f"the client looked at its task {looks} times and was gone before the end")
    if script.asked("tools/call") > 1:
        raise NotRun("the client made the call more than once")


async def _played(trial: Trial, script: Script) -> Script:
    if trial.client is None:
        raise NotApplicable("no client was given (--client)")
    try:
        await trial.client(script)
    finally:
        trial.exchanges += script.exchanges
    if not script.asked("tools/call"):
        raise NotRun("the client never called the tool")
    return script


CHECKS: Final[tuple[Check, ...]] = (client_unknown_disposition, client_tasks_alone)
