"""Group `discovery`: what the metadata of the decision point says, and its keys."""

from typing import Any, Final
from urllib.parse import urlsplit

from arap_service.conformance.jose import Unreadable, read
from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Trial
from blackbox_kit.model import Json, NotApplicable, NotKept, NotRun

GROUP: Final = "discovery"
CAPABILITY: Final = "urn:openid:authzen:capability:access-request"
PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


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
    answer = trial.metadata_answer
    if answer.status != 200 or not isinstance(answer.body, dict):
        raise NotKept(f"the metadata was answered with {answer.brief()}")
    if not answer.headers.get("content-type", "").lower().startswith("application/json"):
        raise NotKept(f"the metadata is sent as {answer.headers.get('content-type')!r}")


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
    named = _metadata(trial).get("policy_decision_point")
    if named not in {trial.target, trial.target + "/"}:  # whoever calls the suite writes either
        raise NotKept(f"policy_decision_point is {named!r}, not {trial.target!r}")


@rule(
    "request-endpoint-published",
    GROUP,
    "A PDP supporting this profile MUST publish an `access_request_endpoint` in PDP metadata.",
    requirements=("PDP-29",),
    questions=(),
)
async def request_endpoint_published(trial: Trial) -> None:
    """The metadata names the Access Request Endpoint."""
    if not isinstance(_metadata(trial).get("access_request_endpoint"), str):
        raise NotKept("the metadata has no access_request_endpoint")


@rule(
    "endpoints-are-https",
    GROUP,
    "The endpoint value MUST be an HTTPS URI.",
    requirements=("PDP-28", "PDP-29", "PDP-31"),
    questions=(),
)
async def endpoints_are_https(trial: Trial) -> None:
    """What the metadata names is https, where the service itself is."""
    if urlsplit(trial.target).scheme != "https":
        raise NotApplicable("the service itself is tested over plain http")
    named = {name: url for name, url in _metadata(trial).items() if name.endswith(("_endpoint", "_uri"))}
    if not named:
        raise NotRun("the metadata names no endpoint")
    if wrong := [name for name, url in named.items() if not str(url).startswith("https://")]:
        raise NotKept(f"these are not https: {', '.join(wrong)}")


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
    capabilities = _metadata(trial).get("capabilities")
    if not isinstance(capabilities, list) or CAPABILITY not in capabilities:
        raise NotKept(f"the capabilities are {capabilities!r}, without {CAPABILITY}")


@rule(
    "keys-published",
    GROUP,
    "MUST publish a `jwks_uri` in PDP metadata.",
    requirements=("PDP-31",),
)
async def keys_published(trial: Trial) -> None:
    """Whoever signs publishes a JWK Set that can be fetched."""
    denial = await trial.denied()
    try:
        read(denial.token)
    except Unreadable:
        raise NotApplicable("no signed binding token is issued") from None
    if not isinstance(trial.metadata.get("jwks_uri"), str):
        raise NotKept("a signed binding token is issued, and the metadata has no jwks_uri")
    answer = await trial.ask("GET", trial.metadata["jwks_uri"], role=None)
    keys = answer.document.get("keys")
    if not answer.is_success or not isinstance(keys, list) or not keys:
        raise NotKept(f"jwks_uri was answered with {answer.brief()}")


@rule(
    "keys-are-public",
    GROUP,
    "The value is an HTTPS URI of a JWK Set {{RFC7517}} document containing the verification keys for the "
    "signed artifacts this profile defines",
    requirements=("PDP-32",),
)
async def keys_are_public(trial: Trial) -> None:
    """No key of the set has a private or symmetric part."""
    if found := sorted({name for key in await _keys(trial) for name in PRIVATE & key.keys()}):
        raise NotKept(f"a published key has {', '.join(found)}")


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
    for key in await _keys(trial):
        if not key.get("kid") or not key.get("use"):
            raise NotKept(f"a published key has the kid {key.get('kid')!r} and the use {key.get('use')!r}")


def _metadata(trial: Trial) -> Json:
    """The metadata.

    Raises:
        NotRun: There is none; that is the first check's question.
    """
    answer = trial.metadata_answer
    if answer.status != 200 or not isinstance(answer.body, dict):
        raise NotRun(f"there is no metadata: it was answered with {answer.brief()}")
    return trial.metadata


async def _keys(trial: Trial) -> list[dict[str, Any]]:
    if "jwks_uri" not in trial.metadata:
        raise NotApplicable("the metadata has no jwks_uri")
    keys = await trial.keys()
    if not keys or not all(isinstance(key, dict) for key in keys):
        raise NotRun("the published keys are none, or one of them is no object")
    return keys


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
