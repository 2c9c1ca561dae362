"""A list of breached passwords is searched where it lies; OWASP ASVS 5.0, 6.2.12."""

import hashlib
from pathlib import Path
from typing import BinaryIO

import pytest

from arap_service import breached
from arap_service.breached import ListUnusable, check_list, is_breached
from arap_service.surroundings import open_context
from arap_service.yaml_files import SettingsInvalid
from tests.service import settings_for
from tests.test_doctor import PEOPLED, found

KNOWN = [f"known to everybody {number}" for number in range(200)]


def hashes(passwords: list[str]) -> list[str]:
    return sorted(hashlib.sha1(each.encode(), usedforsecurity=False).hexdigest().upper() for each in passwords)


def written(folder: Path, lines: list[str], end: str = "\r\n", last: str = "") -> Path:
    path = folder / "breached.txt"
    path.write_bytes((end.join(lines) + last).encode())
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("is_ended", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3, 200])
def test_every_password_of_the_list_is_found_and_no_other(
    tmp_path: Path, end: str, count: int, *, is_ended: bool
) -> None:
    """The first, the last and all between, with counts of any width."""
    lines = [f"{each}:{10 ** (number % 9)}" for number, each in enumerate(hashes(KNOWN[:count]))]
    path = written(tmp_path, lines, end, end if is_ended else "")
    check_list(path)
    assert [each for each in KNOWN if is_breached(each, path)] == KNOWN[:count]
    assert not any(is_breached(f"known to nobody {number}", path) for number in range(200))


def test_a_list_without_counts_or_in_small_letters_counts_as_well(tmp_path: Path) -> None:
    path = written(tmp_path, [each.lower() for each in hashes(KNOWN)])
    assert is_breached(KNOWN[7], path)


def test_the_list_is_searched_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole list is 40 gigabytes."""
    path = written(tmp_path, [f"{each}:1" for each in hashes(KNOWN * 20)])
    looks: list[int] = []
    look = breached._first_from

    def counted(file: BinaryIO, position: int) -> bytes | None:
        looks.append(position)
        return look(file, position)

    monkeypatch.setattr(breached, "_first_from", counted)
    assert is_breached(KNOWN[0], path)
    assert len(looks) <= path.stat().st_size.bit_length() + 1


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "is empty"),
        (["password", "qwerty"], "holds something else"),
        ([f"{each[:32]}:5" for each in hashes(KNOWN)], "holds something else"),
        ([f"{each}:5" for each in reversed(hashes(KNOWN))], "is not ordered by hash"),
        (["x" * 10_000_000], "holds something else"),
    ],
)
def test_a_file_of_another_kind_is_no_list(tmp_path: Path, lines: list[str], says: str) -> None:
    with pytest.raises(ListUnusable, match=says):
        check_list(written(tmp_path, lines))


def test_a_list_that_is_not_there_says_nothing_about_a_password(tmp_path: Path) -> None:
    for asked in (lambda: check_list(tmp_path / "none"), lambda: is_breached(KNOWN[0], tmp_path)):
        with pytest.raises(ListUnusable, match="cannot be read"):
            asked()


@pytest.mark.anyio
async def test_a_service_does_not_start_without_its_list_and_the_doctor_says_why(
    service_url: str, tmp_path: Path
) -> None:
    path = written(tmp_path, [f"{each}:5" for each in reversed(hashes(KNOWN))])
    settings = settings_for(tmp_path, database=service_url, policy=PEOPLED, login={"breached_passwords": path})
    with pytest.raises(SettingsInvalid) as refused:
        await open_context(settings)
    assert refused.value.problems == (f"login.breached_passwords: {path} is not ordered by hash",)
    assert (await found(settings))["login.breached_passwords"].state == "failed"
    written(tmp_path, [f"{each}:5" for each in hashes(KNOWN)])
    await (await open_context(settings)).aclose()
    assert (await found(settings))["login.breached_passwords"].state == "ok"
