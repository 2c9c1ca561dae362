"""What a tape keeps does not depend on which of two that run side by side was quicker."""

from tests.reference.tape import Exchange, Tape

UPDATE = Exchange("mcp", "", "", {"method": "tasks/update"}, None, {"result": {}})
INPUT = Exchange("backend", "POST", "/access/v1/request/task_1/input", {"invoice": "INV-4711"}, 200, {})
LOOK = Exchange("backend", "GET", "/access/v1/request/task_1", None, 200, {"task": {"status": "approved"}})


def test_what_a_client_was_answered_stays_although_the_gate_had_gone_on_before() -> None:
    tape = Tape()
    for exchange in (INPUT, UPDATE, LOOK):
        tape.add(exchange)
    assert tape.end_with("POST", "/input")
    assert tape.exchanges == [INPUT, UPDATE]


def test_a_tape_without_the_exchange_stays_as_it_is() -> None:
    tape = Tape([UPDATE, LOOK])
    assert not tape.end_with("POST", "/input")
    assert tape.exchanges == [UPDATE, LOOK]
