"""Policy cases: the repository's own all hold, and one that does not is told with what was found."""

import json
from pathlib import Path

import jsonschema_rs
import pytest
from typer.testing import CliRunner

from arap_service.cli import app
from arap_service.domain.policy import Policy
from arap_service.domain.policy_load import PolicyInvalid, load_policy, policy_schema
from arap_service.policy_check import case_files, case_schema, read_case, run_case

FOLDER = Path(__file__).parent / "vectors" / "policy"
CASES = case_files([FOLDER / "cases"])
QUESTION = """
says: A case of this test
client: gate-1
question:
  subject: {type: user, id: alice@example.com}
  resource: {type: tool, id: wire_transfer}
  action: {name: tools/call}
  context: {"urn:x-arap:tool_call": {arguments: {to: acct-991, amount: 50000}}}
"""


def rules(name: str = "treasury") -> Policy:
    return load_policy((FOLDER / "rules" / f"{name}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
@pytest.mark.requirement("PDP-05", "ARS-02")
def test_policy_case(path: Path) -> None:
    """One YAML file for each case (`tests/vectors/policy/README.md`)."""
    case = read_case(path.read_text(encoding="utf-8"))
    assert run_case(rules(case["rules"]), path).differences == ()


@pytest.mark.parametrize(
    ("expectation", "differences"),
    [
        ("expect: {request: wire, reason: above_limit, effect: Transfer 50000 to acct-991}", ()),
        ("expect: {permit: small-transfer}", ('expected permit "small-transfer", found request "wire"',)),
        ("expect: {deny: policy_denied}", ('expected deny "policy_denied", found request "wire"',)),
        (
            "expect: {request: payroll, effect: null}",
            (
                'expected request "payroll", found "wire"',
                'expected effect null, found "Transfer 50000 to acct-991"',
            ),
        ),
        ("expect: {request: wire, evaluators: {}}", ('expected evaluators {}, found {"unreadable": "hold"}',)),
        ("expect: {request: wire, provisioned: true}", ("expected provisioned true, found false",)),
        ("expect: {request: wire}\nmay_submit: false", ("expected may_submit false, found true",)),
        ("expect: {request: wire}\nmay_submit: true", ()),
    ],
)
def test_a_case_tells_what_differs(tmp_path: Path, expectation: str, differences: tuple[str, ...]) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(QUESTION + expectation, encoding="utf-8")
    result = run_case(rules(), path)
    assert (result.path, result.says, result.differences) == (path, "A case of this test", differences)


def test_arguments_of_another_shape_reach_the_rules_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    text = QUESTION.replace("{to: acct-991, amount: 50000}", "[1]") + "expect: {deny: tool_call_malformed}"
    path.write_text(text, encoding="utf-8")
    assert run_case(rules(), path).differences == ()


@pytest.mark.parametrize(
    ("text", "line", "pointer"),
    [
        ("says: too little\n", 1, ""),
        (QUESTION + "expect: {permit: a, deny: b}", 9, "/expect"),
        (QUESTION + "expect: {permit: a}\nsays: twice", 10, "/says"),
    ],
)
def test_what_is_no_case_is_refused_with_its_line(text: str, line: int, pointer: str) -> None:
    with pytest.raises(PolicyInvalid) as refused:
        read_case(text)
    assert (line, pointer) in [(problem.line, problem.pointer) for problem in refused.value.problems]


def test_cases_are_found_in_folders_and_by_name(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yaml", "note.txt"):
        (tmp_path / name).write_text("", encoding="utf-8")
    single = tmp_path / "note.txt"
    assert case_files([tmp_path, single]) == [tmp_path / "a.yaml", tmp_path / "b.yaml", single]


def test_the_schema_of_a_case_is_one() -> None:
    assert jsonschema_rs.meta.is_valid(case_schema())
    assert json.dumps(case_schema()).count("urn:x-arap:schema:policy-case:1") == 1


CLI = CliRunner()
TREASURY = str(FOLDER / "rules" / "treasury.yaml")


def test_the_command_says_that_all_cases_hold() -> None:
    result = CLI.invoke(app, ["policy", "test", TREASURY, str(FOLDER / "cases")])
    assert (result.exit_code, result.stdout) == (0, f"{len(CASES)} cases hold.\n")


def test_the_command_names_every_case_that_fails_or_is_none(tmp_path: Path) -> None:
    wrong, broken, missing = tmp_path / "wrong.yaml", tmp_path / "broken.yaml", tmp_path / "missing.yaml"
    wrong.write_text(QUESTION + "expect: {permit: small-transfer}", encoding="utf-8")
    broken.write_text("says: [\n", encoding="utf-8")
    result = CLI.invoke(app, ["policy", "test", TREASURY, str(wrong), str(broken), str(missing)])
    assert (result.exit_code, result.stdout) == (1, "")
    lines = result.stderr.splitlines()
    assert lines[0].startswith(f"arap: {broken}: line 2: file: not valid YAML")
    assert lines[1:] == [
        f"arap: {missing}: cannot be read",
        f'arap: {wrong}: A case of this test: expected permit "small-transfer", found request "wire"',
    ]


def test_the_command_does_not_take_nothing_for_success(tmp_path: Path) -> None:
    result = CLI.invoke(app, ["policy", "test", TREASURY, str(tmp_path)])
    assert (result.exit_code, result.stderr) == (1, "arap: policy: no case was found\n")


def test_a_wrong_rules_file_is_told_before_any_case(tmp_path: Path) -> None:
    rules_file = tmp_path / "rules.yaml"
    rules_file.write_text("version: 1\n", encoding="utf-8")
    result = CLI.invoke(app, ["policy", "test", str(rules_file), str(FOLDER / "cases")])
    assert (result.exit_code, result.stderr) == (1, 'arap: policy: line 1: /: "rules" is a required property\n')


def test_the_schema_for_editors_can_be_printed() -> None:
    result = CLI.invoke(app, ["policy", "schema"])
    assert (result.exit_code, json.loads(result.stdout)) == (0, policy_schema())


DECIDERS = """
version: 1
entities:
  user: {alice@example.com: {manager: mia}}
  tool: {wire_transfer: {owner: "https://idp.example|otto"}}
  person: {lou: {limit: 60000}}
rules: [{id: ask, when: 'true', request: wire}]
templates:
  wire:
    title: Wire
    explanation: Somebody agrees.
    steps:
      - {id: manager, title: Manager, relations: [{of: subject, is: manager}]}
      - {id: owner, title: Owner, relations: [{of: resource, is: owner}], groups: [treasury], after: [manager]}
      - {id: limit, title: Limit, who: 'person_entity.limit >= call.arguments.amount'}
"""
WHO = """
expect: {request: wire}
people:
  alice: {identities: ["https://idp.example|alice@example.com"], groups: [treasury]}
  otto: {identities: ["https://idp.example|otto"]}
  tess: {groups: [treasury]}
  gone: {groups: [treasury], active: false}
"""

WHO_MAY = """
eligible: [mia, otto, tess, lou]
ineligible: {alice: is_subject, gone: not_active, zoe: not_assigned, gate-1: is_submitter}
"""


@pytest.mark.parametrize(
    ("expectation", "differences"),
    [
        (
            WHO_MAY,
            (),
        ),
        ("eligible: [zoe]", ("expected zoe eligible, found not_assigned",)),
        ("ineligible: {mia: not_assigned}", ("expected mia not_assigned, found eligible",)),
        ("ineligible: {alice: not_assigned}", ("expected alice not_assigned, found is_subject",)),
    ],
)
@pytest.mark.requirement("ARS-115", "ARS-116")
def test_a_case_says_who_may_decide(tmp_path: Path, expectation: str, differences: tuple[str, ...]) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(QUESTION + WHO + expectation + "\n", encoding="utf-8")
    assert run_case(load_policy(DECIDERS), path).differences == differences


def test_a_case_about_deciders_of_what_is_not_requestable_fails(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(QUESTION + "expect: {deny: policy_denied}\neligible: [mia]\n", encoding="utf-8")
    closed = load_policy("version: 1\nrules: []\n")
    assert run_case(closed, path).differences == ("expected mia eligible, found nothing to decide",)
