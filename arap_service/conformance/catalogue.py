"""All checks in the order in which they are run."""

from typing import Final

from arap_service.conformance.checks import (
    access,
    binding,
    bulk,
    callbacks,
    cancellation,
    catalogs,
    denial,
    discovery,
    idempotency,
    order,
    reevaluation,
    revocation,
    status,
    submission,
)
from arap_service.conformance.model import Check

CHECKS: Final[tuple[Check, ...]] = (
    *discovery.CHECKS,
    *denial.CHECKS,
    *submission.CHECKS,
    *binding.CHECKS,
    *order.CHECKS,
    *idempotency.CHECKS,
    *status.CHECKS,
    *access.CHECKS,
    *cancellation.CHECKS,
    *callbacks.CHECKS,
    *bulk.CHECKS,
    *catalogs.CHECKS,
    *reevaluation.CHECKS,
    *revocation.CHECKS,
)
GROUPS: Final[tuple[str, ...]] = tuple(dict.fromkeys(check.group for check in CHECKS))
