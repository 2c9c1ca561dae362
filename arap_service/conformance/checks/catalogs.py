"""Group `catalogs`: schemas, catalogs, and what is submitted from them."""

from typing import Final

from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Trial

GROUP: Final = "catalogs"


@rule(
    "schema-can-be-read",
    GROUP,
    "URL where the Access Request Service publishes a machine-readable description of the augmentations "
    "the PEP must add to the submission's `context` and `requested_access` objects.",
    requirements=("PDP-46", "ARS-106"),
    questions=("form",),
    profiles=("forms",),
)
async def schema_can_be_read(trial: Trial) -> None:
    """`request_schema_url` gives a JSON object."""
    await trial.not_written()


@rule(
    "input-is-validated",
    GROUP,
    "MUST construct the augmentations to the submission's `context` and `requested_access` objects "
    "according to {{machine-readable-forms}} and {{catalog-references}}",
    requirements=("ARS-105",),
    level=Level.SHOULD,
    questions=("form",),
    profiles=("forms",),
)
async def input_is_validated(trial: Trial) -> None:
    """A submission without the input that the schema requires is refused."""
    await trial.not_written()


@rule(
    "catalogs-come-with-a-schema",
    GROUP,
    "MUST include `request_schema_url` when including `request_catalogs_url`.",
    requirements=("PDP-45",),
    questions=("catalog",),
    profiles=("catalogs",),
)
async def catalogs_come_with_a_schema(trial: Trial) -> None:
    """`request_catalogs_url` never stands without `request_schema_url`."""
    await trial.not_written()


@rule(
    "catalog-needs-authentication",
    GROUP,
    "authenticate the caller;",
    requirements=("ARS-110",),
    questions=("catalog",),
    profiles=("catalogs",),
)
async def catalog_needs_authentication(trial: Trial) -> None:
    """Without a token a catalog shows nothing."""
    await trial.not_written()


@rule(
    "catalog-answers-with-items",
    GROUP,
    "A successful response returns HTTP `200 OK` and a JSON object with the following members:",
    requirements=("ARS-111", "ARS-110"),
    questions=("catalog",),
    profiles=("catalogs",),
)
async def catalog_answers_with_items(trial: Trial) -> None:
    """The Catalogs Document names endpoints; they answer with `items`, each with its value."""
    await trial.not_written()


@rule(
    "catalog-pages-go-on",
    GROUP,
    "Opaque cursor that the caller passes as `cursor` to retrieve the next page.",
    requirements=("ARS-111",),
    questions=("catalog",),
    profiles=("catalogs",),
)
async def catalog_pages_go_on(trial: Trial) -> None:
    """`next_cursor` gives the next page, and no item twice."""
    await trial.not_written()


@rule(
    "catalog-hides",
    GROUP,
    "it MUST NOT disclose entries the requester would not be permitted to request.",
    requirements=("ARS-110",),
    questions=("catalog",),
    profiles=("catalogs",),
)
async def catalog_hides(trial: Trial) -> None:
    """No text that the control file calls hidden from this caller is in the catalog, searched or not."""
    await trial.not_written()


@rule(
    "catalog-values-are-validated",
    GROUP,
    "The Access Request Service MUST validate submitted catalog identifiers at submission time.",
    requirements=("ARS-109",),
    level=Level.SHOULD,
    questions=("catalog",),
    profiles=("catalogs",),
)
async def catalog_values_are_validated(trial: Trial) -> None:
    """A value that no catalog has is refused."""
    await trial.not_written()


CHECKS: Final[tuple[Check, ...]] = (
    schema_can_be_read,
    input_is_validated,
    catalogs_come_with_a_schema,
    catalog_needs_authentication,
    catalog_answers_with_items,
    catalog_pages_go_on,
    catalog_hides,
    catalog_values_are_validated,
)
