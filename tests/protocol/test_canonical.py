"""Strict reading, canonical form, comparison and binding. Vectors: binding-hash-extra.json, structural-compare.json."""

import hashlib
import json
import math
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.protocol.canonical import (
    DEFAULT_VOLATILE,
    MACHINERY,
    TOOL_CALL,
    InvalidJson,
    Tuple4,
    Unrepresentable,
    _names,
    _walk,
    accepted_binding_hashes,
    arguments_hash,
    bindable_members,
    binding_hash,
    bound_context,
    canonical,
    digest,
    find_unrepresentable,
    json_pointer,
    prune_subject,
    same_json,
    same_tuple,
    strict_loads,
)
from tests.protocol.vectors import load

BINDINGS = load("binding-hash-extra")
COMPARISONS = load("structural-compare")
SAFE = 2**53 - 1

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-SAFE, SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.sampled_from([0, 0.0, -0.0, 1, 1.0, True, False, "1", "", 1e21])
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
objects = st.dictionaries(texts, values, max_size=4)


def refusal(raw: bytes | str, **limits: int) -> tuple[str, str]:
    with pytest.raises(InvalidJson) as caught:
        strict_loads(raw, **limits)
    return caught.value.code, caught.value.pointer


@given(values)
def test_strict_reading_gives_what_the_standard_reader_gives(value: Any) -> None:
    """For texts without a fault the two readers agree, escaped or not."""
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert strict_loads(text) == json.loads(text)
        assert strict_loads(text.encode()) == json.loads(text)


@pytest.mark.requirement("PDP-12")
@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b'{"a": 1, "a": 2}', ("duplicate", "/a")),
        (b'{"a": 1, "\\u0061": 2}', ("duplicate", "/a")),
        (b'[0, {"x": [{"b": 1, "c": 2, "b": 1}]}]', ("duplicate", "/1/x/0/b")),
        (b'{"a/b~c": {"d": 1, "d": 1}}', ("duplicate", "/a~1b~0c/d")),
        (b"NaN", ("number", "")),
        (b'{"a": [1, -Infinity]}', ("number", "/a/1")),
        (b'{"a": 1e999}', ("number", "/a")),
        (b'{"a": -1E+400, "b": 1}', ("number", "/a")),
        (b'{"a": ' + b"9" * 5000 + b"}", ("number", "/a")),
        (b'"\\ud800"', ("surrogate", "")),
        (b'{"a": ["ok \\ud83d\\ude00", "\\udc00\\ud800"]}', ("surrogate", "/a/1")),
        (b'{"a": {"\\udfff": 1}}', ("surrogate", "/a")),
        ('["\ud800"]', ("surrogate", "")),
        (b"\xff", ("utf8", "")),
        (b'"\xed\xa0\x80"', ("utf8", "")),
        (b'{"a"\x00: 1}', ("syntax", "")),
        (b"", ("syntax", "")),
        (b"\xef\xbb\xbf{}", ("syntax", "")),
        ('"\x01"', ("syntax", "")),
        (b"{} {}", ("syntax", "")),
        ('{"a": 1}'.encode("utf-16"), ("utf8", "")),
        (b'{"a": NaN, ', ("syntax", "")),
    ],
)
def test_a_text_that_two_readers_could_read_differently_is_refused(raw: bytes | str, fault: tuple[str, str]) -> None:
    """RFC 7493 and Authorization API "JSON Payload Considerations"; the standard reader accepts the first thirteen."""
    assert refusal(raw) == fault


@pytest.mark.parametrize("raw", [b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000, b"[" * 129 + b"]" * 129])
def test_deep_nesting_is_refused_and_the_process_lives(raw: bytes) -> None:
    assert refusal(raw)[0] in {"depth", "syntax"}
    assert strict_loads(b"[]") == []


def test_the_depth_limit_counts_containers_inside_one_another() -> None:
    """128 by default; many containers side by side are no depth."""
    nested = b'[{"a":' * 64 + b"1" + b"}]" * 64
    assert json.loads(nested) == strict_loads(nested)
    assert refusal(b"[" + nested + b"]") == ("depth", "")
    assert refusal(b"[[1]]", max_depth=1) == ("depth", "")
    assert strict_loads(b"[" + b"[],{}," * 400 + b"[]]") == [[], {}] * 400 + [[]]
    assert strict_loads('"' + "[" * 500 + '"') == "[" * 500


def test_a_deep_text_with_another_fault_is_refused_as_deep() -> None:
    """The second reading, which looks for the place of a fault, cannot be driven into the ground either."""
    assert refusal(b'[{"a":1,"a":1},' + b"[" * 100_000) == ("depth", "")


def test_a_wide_text_with_a_fault_is_located_in_memory_of_its_own_size() -> None:
    """The pointers of a hundred thousand members below a long name are not written out to find one of them."""
    name = "n" * 100_000
    text = json.dumps({name: [0] * 100_000})[:-2] + ",NaN]}"
    assert refusal(text) == ("number", f"/{name}/100000")


def test_an_error_repeats_nothing_of_the_text() -> None:
    """The message is one of ours; the pointer, which has member names, is a separate attribute."""
    for raw in (b'{"hunter2": NaN}', b'{"hunter2": 1, "hunter2": 1}', b'["hunter2\\ud800"]', b"hunter2"):
        with pytest.raises(InvalidJson) as caught:
            strict_loads(raw)
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None
    with pytest.raises(Unrepresentable) as refused:
        canonical({"hunter2": 2**60})
    assert "hunter2" not in str(refused.value)
    assert str(2**60) not in str(refused.value)


def test_values_are_visited_in_document_order() -> None:
    """The first fault reported is the first that a reader of the text meets."""
    text = '{"b": [1, {"c": 2}], "a": {}}'
    visited = [json_pointer(_names(path)) for path, _ in _walk(json.loads(text))]
    assert visited == ["", "/b", "/b/0", "/b/1", "/b/1/c", "/a"]
    assert find_unrepresentable({"b": [2**60], "a": 2**60}) == "/b/0"


def test_a_pointer_is_printable_even_through_a_name_that_is_not() -> None:
    assert refusal(b'{"\\ud800": {"a": 1, "a": 2}}') == ("duplicate", "/?/a")
    assert json_pointer(["a/b", "~", 0]) == "/a~1b/~0/0"


@pytest.mark.requirement("PDP-14")
@pytest.mark.parametrize(
    ("text", "is_exact"),
    [
        ("9007199254740991.0", True),
        ("9007199254740992.0", True),
        ("1e22", True),
        ("1e23", True),
        ("1.7976931348623157e308", True),
        ("-1E+300", True),
        ("0.1", True),
        ("9007199254740993.0", False),
        ("-9007199254740993.0", False),
        ("9007199254740993e0", False),
        ("900719925474099.3e1", False),
        ("9007199254740991.9", False),
        ("9007199254740993.5", False),
        ("123456789012345678901234567890.0", False),
        ("1.7976931348623157123e308", False),
    ],
)
def test_a_large_number_with_a_fraction_or_an_exponent_is_never_rounded_in_silence(
    text: str, *, is_exact: bool
) -> None:
    """What would be bound as its neighbour is found, however it is spelled; what the canonical form carries is not."""
    value = strict_loads(f'{{"n": [{text}]}}')
    assert find_unrepresentable(value) == (None if is_exact else "/n/0")
    if is_exact:
        assert json.loads(canonical(value)) == json.loads(f'{{"n": [{text}]}}')
    else:
        with pytest.raises(Unrepresentable):
            canonical(value)


@pytest.mark.requirement("PDP-14")
@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (SAFE, None),
        (-SAFE, None),
        (1e21, None),
        (True, None),
        ({"a": [1, {"b": "x"}], "c": None}, None),
        (SAFE + 1, ""),
        ({"a": [0, -SAFE - 1]}, "/a/1"),
        ({"x/y": {"n": math.inf}}, "/x~1y/n"),
        ([math.nan], "/0"),
        (({"n": 2**64}, 2**70), "/0/n"),
    ],
)
def test_the_first_number_that_jcs_cannot_carry_is_found(value: object, pointer: str | None) -> None:
    """Integers beyond 2^53-1 either way, and what isn't finite; never rounded."""
    assert find_unrepresentable(value) == pointer
    if pointer is None:
        assert json.loads(canonical(value)) == value
    else:
        with pytest.raises(Unrepresentable) as caught:
            canonical(value)
        assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ({"a": "\ud800"}, "/a"),
        ({"a": {"\udc00": 1}}, "/a"),
        ({"a": {1: 2}}, "/a"),
        ([b"x"], "/0"),
        ({"a": {2, 3}}, "/a"),
    ],
)
def test_what_is_not_json_text_has_no_canonical_form(value: object, pointer: str) -> None:
    with pytest.raises(Unrepresentable) as caught:
        canonical(value)
    assert caught.value.pointer == pointer


def test_a_value_deeper_than_the_canonicaliser_goes_has_no_canonical_form() -> None:
    """No RecursionError reaches the caller, also not for a value that contains itself."""
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(Unrepresentable):
        canonical(ring)


@pytest.mark.requirement("PDP-52", "PDP-15", "PDP-56")
@pytest.mark.parametrize("vector", BINDINGS["vectors"], ids=lambda vector: vector["id"])
def test_a_binding_vector_recomputes(vector: dict[str, Any]) -> None:
    """binding-hash-extra.json: canonical text, its SHA-256 and the unpadded base64url of that."""
    hashed = vector["hash_input"]
    assert canonical(hashed) == vector["jcs"].encode()
    assert hashlib.sha256(canonical(hashed)).hexdigest() == vector["sha256_hex"]
    assert digest(hashed) == vector["binding_hash"]
    accepted = accepted_binding_hashes(
        hashed["subject"], hashed["resource"], hashed["action"], hashed["context"], list(hashed["context"])
    )
    assert vector["binding_hash"] in accepted


def vector(name: str) -> str:
    return next(str(one["binding_hash"]) for one in BINDINGS["vectors"] if one["id"] == name)


SUBJECT: dict[str, Any] = {"type": "user", "id": "alice@example.com"}
RESOURCE: dict[str, Any] = {"type": "tool", "id": "wire_transfer"}
ACTION: dict[str, Any] = {"name": "tools/call"}


def with_properties(properties: dict[str, Any]) -> dict[str, Any]:
    return {**SUBJECT, "properties": properties}


@pytest.mark.requirement("PDP-53")
def test_a_subject_whose_only_property_was_act_is_hashed_without_properties() -> None:
    """Vectors x-act-only-pruned (ours) and x-act-only-kept-empty (never emitted)."""
    with_act = with_properties({"act": {"sub": "x"}})
    assert binding_hash(with_act, RESOURCE, ACTION, {}, []) == vector("x-act-only-pruned")
    assert binding_hash(SUBJECT, RESOURCE, ACTION, None, []) == vector("x-act-only-pruned")


@pytest.mark.requirement("ARS-25")
@pytest.mark.parametrize("subject", [SUBJECT, with_properties({}), with_properties({"act": {"sub": "x"}})])
def test_both_digests_of_an_emptied_subject_are_accepted_and_no_third(subject: dict[str, Any]) -> None:
    accepted = accepted_binding_hashes(subject, RESOURCE, ACTION, {}, [])
    assert accepted == {vector("x-act-only-pruned"), vector("x-act-only-kept-empty")}
    assert digest({"subject": with_properties({"act": {"sub": "x"}}), "resource": RESOURCE, "action": ACTION,
                   "context": {}}) not in accepted  # fmt: skip


@pytest.mark.requirement("ARS-25")
def test_a_subject_with_other_properties_has_one_digest() -> None:
    subject = with_properties({"act": {"sub": "x"}, "d": 1})
    assert accepted_binding_hashes(subject, RESOURCE, ACTION, {}, []) == {
        binding_hash(with_properties({"d": 1}), RESOURCE, ACTION, {}, [])
    }


@pytest.mark.requirement("ARS-24")
def test_only_act_directly_among_the_properties_of_the_subject_is_left_out() -> None:
    """Vectors x-nested-act-not-excluded and x-resource-properties-act-bound."""
    nested = with_properties({"profile": {"act": {"sub": "x"}}})
    assert binding_hash(nested, RESOURCE, ACTION, {}, []) == vector("x-nested-act-not-excluded")
    resource = {**RESOURCE, "properties": {"act": {"sub": "x"}}}
    assert binding_hash(SUBJECT, resource, ACTION, {}, []) == vector("x-resource-properties-act-bound")
    assert prune_subject({"type": "user", "id": "a", "act": 1}) == {"type": "user", "id": "a", "act": 1}
    assert prune_subject({"properties": None}) == {"properties": None}


def test_pruning_leaves_the_given_subject_alone() -> None:
    subject = with_properties({"act": {"sub": "x"}, "d": 1})
    assert prune_subject(subject) == with_properties({"d": 1})
    assert subject == with_properties({"act": {"sub": "x"}, "d": 1})


@pytest.mark.requirement("GOV-06", "PEP-24")
def test_the_hash_of_the_arguments_is_the_catalogues() -> None:
    """GOV-06: `sha256:5095dd3c…1202`, whatever the order of the members."""
    given_hash = BINDINGS["arguments_hash"]
    assert arguments_hash(given_hash["arguments"]) == given_hash["value"]
    assert arguments_hash(dict(reversed(given_hash["arguments"].items()))) == given_hash["value"]
    assert given_hash["value"].startswith("sha256:5095dd3c")


@pytest.mark.requirement("PEP-24")
def test_another_amount_or_another_agent_is_another_binding() -> None:
    """Vectors x-tool-call-args, -agentB, -mutated: approving one call approves no other."""

    def bound(amount: int, agent: str) -> str:
        hashed = arguments_hash({"to": "acct-991", "amount": amount})
        context = {"agent": agent, "arguments_hash": hashed, "time": "2026-04-30T20:15:00Z"}
        return binding_hash(SUBJECT, RESOURCE, ACTION, context, bindable_members(context))

    assert bound(50000, "agent-A") == vector("x-tool-call-args")
    assert bound(50000, "agent-B") == vector("x-tool-call-args-agentB")
    assert len({bound(50000, "agent-A"), bound(50001, "agent-A"), bound(50000, "agent-B")}) == 3


@pytest.mark.requirement("PDP-15", "ARS-22")
def test_null_and_absent_bind_differently() -> None:
    """A member that the list names and the context lacks stays absent; a null one stays null."""
    assert bound_context({"project": None}, ["project", "tenant"]) == {"project": None}
    absent = binding_hash(SUBJECT, RESOURCE, ACTION, {}, ["project"])
    null = binding_hash(SUBJECT, RESOURCE, ACTION, {"project": None}, ["project"])
    assert absent != null


@pytest.mark.requirement("ARS-22")
def test_exactly_the_listed_members_of_the_context_bind() -> None:
    """Changing or dropping a listed member changes the digest, adding another doesn't; no list binds nothing."""

    def bound(context: dict[str, Any], members: list[str]) -> str:
        return binding_hash(SUBJECT, RESOURCE, ACTION, context, members)

    denied = bound({"project": "p"}, ["project"])
    assert bound({"project": "p", "business_justification": "why"}, ["project"]) == denied
    assert bound({"project": "q"}, ["project"]) != denied
    assert bound({}, ["project"]) != denied
    assert bound({"project": "p"}, []) == bound({"project": "q"}, [])


@pytest.mark.requirement("PDP-54", "PDP-55", "PDP-56")
def test_machinery_volatile_members_and_the_shown_call_never_bind() -> None:
    context = dict.fromkeys([*MACHINERY, *DEFAULT_VOLATILE, TOOL_CALL, "arguments_hash", "agent", "server"], "x")
    assert set(MACHINERY) == {"access_request", "evaluation_id", "evaluated_at", "reason", "approval"}
    assert "time" in DEFAULT_VOLATILE
    assert bindable_members(context) == ["agent", "arguments_hash", "server"]
    assert bindable_members({"time": 1, "ip": 2, "approval": 3}, volatile={"ip"}) == ["time"]
    assert bindable_members(None) == []


@pytest.mark.requirement("ARS-26")
@pytest.mark.parametrize("case", COMPARISONS, ids=range(len(COMPARISONS)))
def test_a_comparison_vector_comes_out_as_given(case: dict[str, Any]) -> None:
    """structural-compare.json; rows about a member put the values into an object, rows about a Subject are pruned."""
    a, b = case["a"], case["b"]
    if case.get("scope") == "member":
        a, b = {"m": a}, {}
    assert same_json(a, b) is (case["equal"] and case.get("as_") != "Subject")
    if isinstance(a, dict) and "type" in a:
        as_subject = case["equal"] or "X-01" in case.get("note", "")
        assert same_json(prune_subject(a), prune_subject(b)) is as_subject
        resource = same_tuple(Tuple4({}, a, {}, {}), Tuple4({}, b, {}, {}), [])
        assert resource is same_json(a, b)


@pytest.mark.requirement("ARS-26")
@given(values, values)
def test_two_values_are_the_same_if_and_only_if_their_canonical_forms_are(a: Any, b: Any) -> None:
    assert same_json(a, b) is (canonical(a) == canonical(b))
    assert same_json(a, json.loads(canonical(a), parse_int=float))


@pytest.mark.requirement("ARS-26")
@given(objects)
def test_the_order_of_members_and_the_spelling_of_a_number_never_matter(value: dict[str, Any]) -> None:
    """Python calls True and 1 equal, and JSON doesn't; JSON calls 1 and 1.0 equal."""
    shuffled = dict(reversed(value.items()))
    assert same_json(value, shuffled)
    assert digest(value) == digest(shuffled)
    assert not same_json({**value, "n": True}, {**value, "n": 1})
    assert same_json({**value, "n": 1}, {**value, "n": 1.0})


@pytest.mark.requirement("ARS-41")
def test_two_bodies_have_one_digest_if_they_differ_in_spelling_alone() -> None:
    """idempotency.json I2 and I16: members and white space may move, items may not."""
    items = [{"resource": {"id": "1"}}, {"resource": {"id": "2"}}]
    body = {"subject": {"type": "user", "id": "alice"}, "items": items, "n": 1}
    respelt = strict_loads(
        '{ "n": 1.0, "items": ' + json.dumps(items, indent=2) + ',"subject":{"id":"\\u0061lice","type":"user"}}'
    )
    assert digest(respelt) == digest(body)
    assert digest({**body, "items": items[::-1]}) != digest(body)
    assert digest({**body, "more": None}) != digest(body)


@pytest.mark.requirement("ARS-26")
def test_numbers_beyond_the_canonical_form_still_compare_exactly() -> None:
    assert not same_json(2**53, 2**53 + 1)
    assert not same_json(2**53 + 1, float(2**53))
    assert not same_json(math.nan, math.nan)
    assert same_json((1, [2]), [1, (2,)])


def test_comparing_needs_no_recursion() -> None:
    """A value deeper than the interpreter's stack compares."""
    deep: Any = 1
    other: Any = 2
    for _ in range(sys.getrecursionlimit() * 2):
        deep, other = [deep], [other]
    assert same_json(deep, deep)
    assert not same_json(deep, other)


@pytest.mark.requirement("ARS-20", "PDP-67")
@pytest.mark.parametrize("part", ["subject", "resource", "action", "context"])
def test_a_change_of_any_of_the_four_is_another_tuple(part: str) -> None:
    """Also a member gained: a superset is no match."""
    denied = Tuple4(SUBJECT, RESOURCE, ACTION, {"project": "p", "note": 1})
    changed = {**getattr(denied, part), "extra": None, "project": "q"}
    assert same_tuple(denied, denied, ["project"])
    assert not same_tuple(denied, denied._replace(**{part: changed}), ["project"])


@pytest.mark.requirement("ARS-22", "ARS-24", "PDP-67")
def test_act_and_unbound_context_make_no_difference() -> None:
    denied = Tuple4(with_properties({"act": {"sub": "x"}}), RESOURCE, ACTION, {"project": "p", "time": 1})
    submitted = Tuple4(SUBJECT, RESOURCE, ACTION, {"project": "p", "time": 2, "justification": "why"})
    assert same_tuple(denied, submitted, iter(["project"]))
    assert not same_tuple(denied, submitted, ["project", "time"])
