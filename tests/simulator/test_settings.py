"""Where a simulator may run: on this machine, beside no issuer of real tokens, and only when asked for."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.service import settings_for

ISSUER = {"issuer": "https://idp.example", "jwks_uri": "https://idp.example/jwks.json"}


def test_a_service_is_no_simulator_unless_it_is_told(tmp_path: Path) -> None:
    assert settings_for(tmp_path, database="sqlite:///x.db", policy="").simulator is False


@pytest.mark.parametrize("bind", ["127.0.0.1:8400", "[::1]:8400"])
def test_a_simulator_on_loopback_with_the_builtin_issuer_is_accepted(tmp_path: Path, bind: str) -> None:
    assert settings_for(tmp_path, database="sqlite:///x.db", policy="", simulator=True, bind=bind).simulator


@pytest.mark.parametrize("bind", ["0.0.0.0:8400", "10.0.0.1:8400", "localhost:8400", "[::]:8400"])
def test_a_simulator_that_others_could_reach_is_refused(tmp_path: Path, bind: str) -> None:
    with pytest.raises(ValidationError, match=r"loopback address .* while simulator is True"):
        settings_for(tmp_path, database="sqlite:///x.db", policy="", simulator=True, bind=bind)


def test_a_simulator_beside_an_issuer_of_real_tokens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="simulator: must not run beside an issuer"):
        settings_for(tmp_path, database="sqlite:///x.db", policy="", simulator=True, issuers=[ISSUER])
    assert settings_for(tmp_path, database="sqlite:///x.db", policy="", issuers=[ISSUER]).issuers
