"""Requirements that no test proves yet, and why. `python -m tests.requirements --sync` drops those that are proved."""

from typing import Final

OPEN: Final[dict[str, str]] = {
    "ARS-77": "built by the service issue: bulk submission",
    "ARS-78": "built by the service issue: bulk submission",
    "ARS-79": "built by the service issue: bulk submission",
    "ARS-80": "built by the service issue: bulk submission",
    "ARS-81": "built by the service issue: bulk submission",
    "ARS-82": "built by the service issue: bulk submission",
    "ARS-83": "built by the service issue: bulk submission",
    "ARS-84": "built by the service issue: bulk submission",
    "ARS-85": "built by the service issue: bulk submission",
    "ARS-86": "built by the service issue: bulk submission",
    "ARS-98": "built by the service issue: deployment-level event subscriptions, which are optional",
    "ARS-101": "built by the service issue: delegation chains",
    "ARS-103": "built by the service issue: delegation chains",
    "ARS-104": "built by the service issue: delegation chains",
    "ARS-109": "built by the service issue: forms, input schemas and catalogs",
    "ARS-110": "built by the service issue: forms, input schemas and catalogs",
    "ARS-111": "built by the service issue: forms, input schemas and catalogs",
    "ARS-112": "built by the service issue: forms, input schemas and catalogs",
    "ARS-113": "built by the service issue: forms, input schemas and catalogs",
    "ARS-119": "built by the desk issue: workflow, people and reports",
    "PEP-06": "built by the gate issue, which completes the group",
    "PEP-25": "built by the gate issue: declared and default mappings",
    "PEP-27": "built by the gate issue: declared and default mappings",
    "PEP-28": "built by the gate issue: declared and default mappings",
    "PEP-29": "built by the gate issue: declared and default mappings",
    "PEP-54": "built by the gate issue, which completes the group",
    "PEP-107": "built by the gate issue: today the gate mints no downstream credential and caches no decision",
}
