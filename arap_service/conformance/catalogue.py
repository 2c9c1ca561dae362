"""All checks in the order in which they are run."""

from typing import Final

from arap_service.conformance.checks import (
    access,
    binding,
    binding_by_id,
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
    scope,
    status,
    submission,
)
from arap_service.conformance.model import Check

CHECKS: Final[tuple[Check, ...]] = (
    *discovery.CHECKS,
    *denial.CHECKS,
    *submission.CHECKS,
    *binding.CHECKS,
    *binding_by_id.CHECKS,
    *order.CHECKS,
    *idempotency.CHECKS,
    *status.CHECKS,
    *access.CHECKS,
    *cancellation.CHECKS,
    *callbacks.CHECKS,
    *bulk.CHECKS,
    *catalogs.CHECKS,
    *reevaluation.CHECKS,
    *scope.CHECKS,
    *revocation.CHECKS,
)
GROUPS: Final[tuple[str, ...]] = tuple(dict.fromkeys(check.group for check in CHECKS))
