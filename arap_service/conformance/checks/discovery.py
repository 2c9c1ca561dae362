"""Group `discovery`: what the metadata of the decision point says, and its keys."""

from typing import Final

from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Trial

GROUP: Final = "discovery"


@rule(
    "metadata-found",
    GROUP,
    "PDPs supporting metadata MUST make a JSON document containing metadata as specified in the AuthZEN "
    "Policy Decision Point Metadata Registry ({{iana-pdp-metadata-registry}}) available at a URL formed "
    "by inserting a well-known URI string between the host component and the path and/or query "
    "components, if any.",
    requirements=("PDP-26",),
    source="AuthZEN Authorization API 1.0",
    questions=(),
)
async def metadata_found(trial: Trial) -> None:
    """The metadata is a JSON object at the well-known place."""
    await trial.not_written()


@rule(
    "identifier-is-the-one-asked",
    GROUP,
    "The `policy_decision_point` value returned MUST be identical to the Policy Decision Point identifier "
    "value into which the well-known URI string was inserted to create the URL used to retrieve the "
    "metadata.",
    requirements=("PDP-27",),
    source="AuthZEN Authorization API 1.0",
    questions=(),
)
async def identifier_is_the_one_asked(trial: Trial) -> None:
    """`policy_decision_point` is the identifier that the metadata was asked of."""
    await trial.not_written()


@rule(
    "request-endpoint-published",
    GROUP,
    "A PDP supporting this profile MUST publish an `access_request_endpoint` in PDP metadata.",
    requirements=("PDP-29",),
    questions=(),
)
async def request_endpoint_published(trial: Trial) -> None:
    """The metadata names the Access Request Endpoint."""
    await trial.not_written()


@rule(
    "endpoints-are-https",
    GROUP,
    "The endpoint value MUST be an HTTPS URI.",
    requirements=("PDP-28", "PDP-29", "PDP-31"),
    questions=(),
)
async def endpoints_are_https(trial: Trial) -> None:
    """What the metadata names is https, where the service itself is."""
    await trial.not_written()


@rule(
    "capability-listed",
    GROUP,
    "A PDP supporting this profile SHOULD include the following capability URN in the `capabilities` array:",
    requirements=("PDP-30",),
    level=Level.SHOULD,
    questions=(),
)
async def capability_listed(trial: Trial) -> None:
    """The capabilities name the profile."""
    await trial.not_written()


@rule(
    "keys-published",
    GROUP,
    "MUST publish a `jwks_uri` in PDP metadata.",
    requirements=("PDP-31",),
)
async def keys_published(trial: Trial) -> None:
    """Whoever signs publishes a JWK Set that can be fetched."""
    await trial.not_written()


@rule(
    "keys-are-public",
    GROUP,
    "The value is an HTTPS URI of a JWK Set {{RFC7517}} document containing the verification keys for the "
    "signed artifacts this profile defines",
    requirements=("PDP-32",),
)
async def keys_are_public(trial: Trial) -> None:
    """No key of the set has a private or symmetric part."""
    await trial.not_written()


@rule(
    "keys-are-labelled",
    GROUP,
    "Each JWK in the set SHOULD include a `kid` parameter so JWS signatures issued with a `kid` header "
    "can be resolved to the corresponding verification key, and SHOULD include a `use` parameter "
    'distinguishing signing keys (`use: "sig"`) from any other keys advertised.',
    requirements=("PDP-32",),
    level=Level.SHOULD,
)
async def keys_are_labelled(trial: Trial) -> None:
    """Each key has `kid` and `use`."""
    await trial.not_written()


CHECKS: Final[tuple[Check, ...]] = (
    metadata_found,
    identifier_is_the_one_asked,
    request_endpoint_published,
    endpoints_are_https,
    capability_listed,
    keys_published,
    keys_are_public,
    keys_are_labelled,
)
