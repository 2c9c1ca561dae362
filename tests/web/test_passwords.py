"""Passwords of local accounts; RFC 9106."""

import argon2
import pytest

from arap_service.web import passwords
from arap_service.web.passwords import (
    MAX_LENGTH,
    MIN_LENGTH,
    WeakPassword,
    check_new,
    hash_password,
    is_outdated,
    is_password,
)

GOOD = "correct horse battery"


def test_a_password_matches_its_own_hash_only() -> None:
    stored = hash_password(GOOD)
    assert is_password(GOOD, stored=stored)
    assert not is_password(GOOD + "x", stored=stored)
    assert GOOD not in stored
    assert stored != hash_password(GOOD)


@pytest.mark.parametrize("stored", [None, "", "not a hash", "$argon2id$v=19$m=65536,t=3,p=4$AAAA$AAAA"])
def test_without_a_usable_hash_nothing_matches(stored: str | None) -> None:
    assert not is_password(GOOD, stored=stored)


def test_the_stand_in_for_unknown_accounts_never_lets_anybody_in() -> None:
    assert is_password("no account has this password", stored=passwords._NOBODY)
    assert not is_password("no account has this password", stored=None)


def test_an_unknown_account_costs_the_same_work() -> None:
    """The hash that is checked in vain has the parameters of real ones."""
    real = argon2.extract_parameters(hash_password(GOOD))
    assert argon2.extract_parameters(passwords._NOBODY) == real


@pytest.mark.parametrize("password", ["a" * (MIN_LENGTH - 1), "a" * (MAX_LENGTH + 1)])
def test_a_password_outside_the_limits_is_refused(password: str) -> None:
    with pytest.raises(WeakPassword):
        hash_password(password)


@pytest.mark.parametrize(
    "password",
    [
        "Maria-2026-Spring",
        "my-dear-KIM.LEE-too",
        "the best of example",
        "Approvals-4-everybody",
        "PassWord-of-the-day",
        "zzQWERTYzz-77-uu",
        "123456-hurrah-78",
        "abababababab",
    ],
)
def test_a_new_password_that_is_guessed_early_is_refused(password: str) -> None:
    """OWASP ASVS 5.0, 6.2.11: the names of its owner and of the service, and what most people take."""
    with pytest.raises(WeakPassword):
        check_new(password, about=("maria", "kim.lee", "desk.example.net"))


@pytest.mark.parametrize("password", [GOOD, "tr3es & a lake, far", "sM4u9_xQ0bbE2", "an unusual kim of cheese"])
def test_any_other_new_password_will_do(password: str) -> None:
    """Names of fewer than four characters stand in too many words to be refused."""
    check_new(password, about=("maria", "kim", "desk.example.net"))


def test_what_follows_after_the_longest_password_is_not_ignored() -> None:
    stored = hash_password("a" * MAX_LENGTH)
    assert is_password("a" * MAX_LENGTH, stored=stored)
    assert not is_password("a" * MAX_LENGTH + "b", stored=stored)


def test_a_password_that_is_no_text_is_wrong() -> None:
    assert not is_password("\ud800" * MIN_LENGTH, stored=hash_password(GOOD))


def test_a_hash_with_weaker_parameters_is_outdated() -> None:
    weaker = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(GOOD)
    assert is_outdated(weaker)
    assert not is_outdated(hash_password(GOOD))
