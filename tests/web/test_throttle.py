"""How often passwords may be tried, from where and for whom; the limits are the project's own."""

import pytest

from arap_service.web.throttle import PER_ACCOUNT, PER_ADDRESS, PER_PAIR, Throttle

STRANGER = "198.51.100.7"


def test_who_is_refused_at_his_own_address_does_not_shut_the_owner_out() -> None:
    throttle = Throttle()
    admitted = [throttle.admits("grace", address=STRANGER) for _ in range(2 * PER_ACCOUNT.amount)]
    assert sum(admitted) == PER_PAIR.amount
    assert throttle.admits("grace", address="203.0.113.5")


def test_one_address_cannot_use_up_the_attempts_of_many_accounts() -> None:
    throttle = Throttle()
    for _ in range(PER_ADDRESS.amount):
        throttle.admits("anybody", address=STRANGER)
    assert not any(throttle.admits("grace", address=STRANGER) for _ in range(PER_ACCOUNT.amount))
    assert throttle.admits("grace", address="203.0.113.5")


def test_names_that_somebody_makes_up_take_no_memory_once_his_address_is_refused() -> None:
    throttle = Throttle()
    admitted = [throttle.admits(f"made-up-{number}", address=STRANGER) for number in range(10 * PER_ADDRESS.amount)]
    assert sum(admitted) == PER_ADDRESS.amount
    assert throttle.counted <= 1 + 2 * PER_ADDRESS.amount


def test_an_account_is_guarded_against_many_addresses_together() -> None:
    throttle = Throttle()
    admitted = [throttle.admits("grace", address=f"198.51.{number // 250}.{number % 250}") for number in range(300)]
    assert sum(admitted) == PER_ACCOUNT.amount


@pytest.mark.parametrize("again", ["2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"])
def test_the_addresses_of_one_ipv6_network_count_as_one(again: str) -> None:
    throttle = Throttle()
    for number in range(PER_PAIR.amount):
        assert throttle.admits("grace", address=f"2001:db8:1:2::{number:x}")
    assert not throttle.admits("grace", address=again)
    assert throttle.admits("grace", address="2001:db8:1:3::1")


def test_an_ipv4_address_is_the_same_however_it_is_written() -> None:
    throttle = Throttle()
    for _ in range(PER_PAIR.amount):
        assert throttle.admits("grace", address="198.51.100.7")
    assert not throttle.admits("grace", address="::ffff:198.51.100.7")
    assert throttle.admits("grace", address="::ffff:198.51.100.8")


def test_success_forgives_only_who_succeeded_and_from_where() -> None:
    throttle = Throttle()
    for address in (STRANGER, "2001:db8:1:2::1"):
        for _ in range(PER_PAIR.amount):
            throttle.admits("grace", address=address)
    throttle.forgive("grace", address="2001:db8:1:2::9")
    assert throttle.admits("grace", address="2001:db8:1:2::1")
    assert not throttle.admits("grace", address=STRANGER)
