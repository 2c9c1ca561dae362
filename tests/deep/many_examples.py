"""A pytest plugin: the profile `deep`, under which every property is tried on many examples."""

from typing import Final

from hypothesis import HealthCheck, settings

EXAMPLES: Final = 2000

settings.register_profile(
    "deep", max_examples=EXAMPLES, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
