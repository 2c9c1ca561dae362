"""How this suite is called, and how it tells of an exchange in a word or two."""

from typing import Any, Final

from blackbox_kit.model import Json, Suite

PREFIX: Final = "sep-2848-"


def asked(sent: Json) -> str:
    """The method."""
    return str(sent.get("method"))


def kind(came: Any) -> str:
    """What an answer is."""
    answer = came[-1] if isinstance(came, list) and came else came
    if not isinstance(answer, dict):
        return "nothing"
    if isinstance(error := answer.get("error"), dict):
        return f"error {error.get('code')}"
    result = answer.get("result")
    if not isinstance(result, dict):
        return "no result"
    if isinstance(result.get("status"), str):
        return result["status"] if result.get("resultType") != "task" else f"task {result['status']}"
    return "isError" if result.get("isError") is True else str(result.get("resultType", "result"))


SUITE: Final = Suite("sep-2848", "SEP-2848", PREFIX, asked, kind)
