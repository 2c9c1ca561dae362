"""The first story: an agent works on a git repository through the gateway, before the reference git server.

Reading runs at once, a commit needs somebody's yes, staging and resetting are refused outright. The git server is
nobody's of ours, runs over stdio and knows nothing of approvals.
"""

import json
from pathlib import Path
from typing import Final

from examples.demo.agent import Agent, connected
from examples.demo.decisions import Wish
from examples.demo.scratch import ScratchRepository
from examples.demo.story import Stage, answers, expect_result, follow, is_error, require, text_of
from examples.demo.world import Cast, command, gate_settings, write_service
from mcp_gate.client import Disposition, disposition

ROOT: Final = Path(__file__).parent.parent.parent
RULES: Final = ROOT / "examples" / "git_gateway" / "rules.yaml"
GIT_SERVER: Final = ROOT / ".venv-git" / "bin" / "mcp-server-git"
PLACEHOLDER: Final = '"/path/to/repository"'
CAST: Final = Cast(
    agent="coding-agent",
    subject="dana@demo.example",
    gate="git-gate",
    reviewer="morgan",
    reviewer_name="Morgan Ellis",
    group="maintainers",
)
GOOD_MESSAGE: Final = "Retry a payment once when the bank times out"
BAD_MESSAGE: Final = "wip"
REASON: Final = "The message must say what changes"


def set_up(stage: Stage) -> None:
    """Make the repository, start both servers, and stage what the agent will ask to commit."""
    world, narrator = stage.world, stage.narrator
    repository = ScratchRepository.create(world.path("repository"))
    narrator.done(f"a scratch repository with {repository.commits()} commit: {repository.path}")
    write_service(world, rules_for(repository))
    stage.start_service()
    start_gate(stage, repository)
    repository.stage("retry.py", "ATTEMPTS = 2  # the bank times out now and then\n")
    narrator.step("a developer stages retry.py; the agent will ask to commit it")


async def tell(stage: Stage) -> None:
    """Tell it.

    Raises:
        StoryFailed: Something went otherwise than it must.
    """
    world, narrator = stage.world, stage.narrator
    repository = ScratchRepository(world.path("repository"))
    async with connected(world, hear=stage.seen.hear) as agent:
        with narrator.chapter("Reading is permitted, and runs at once"):
            await read(stage, agent, repository)
        with narrator.chapter("Staging and resetting are refused outright"):
            await be_refused(stage, agent, repository)
        with narrator.chapter("A commit needs somebody's yes"):
            await commit(stage, agent, repository)
        with narrator.chapter("Another commit, and somebody says no"):
            await be_denied(stage, agent, repository)


def rules_for(repository: ScratchRepository) -> str:
    """The example's rules, with the scratch repository in the place of the reader's."""
    # A JSON string is a CEL string too, and the rules have it in a block that YAML reads as it stands.
    return RULES.read_text(encoding="utf-8").replace(PLACEHOLDER, json.dumps(str(repository.path), ensure_ascii=False))


def start_gate(stage: Stage, repository: ScratchRepository) -> None:
    """Write the gateway's settings and start it before the git server."""
    world = stage.world
    settings = gate_settings(world, server_name="git")
    upstream = {"command": str(GIT_SERVER), "args": ["--repository", str(repository.path)]}
    world.write("gate.yaml", {**settings, "upstream": upstream})
    serve = [command("mcp-gate"), "proxy", "--config", str(world.path("gate.yaml")), "--die-with-stdin"]
    stage.narrator.step("starting the gateway before mcp-server-git, the reference git server (stdio)")
    stage.supervisor.start("gate", serve, ready=answers(f"{world.gate}/healthz"))
    stage.narrator.done(f"the gateway is up at {world.mcp}; agents connect there and nowhere else")


async def read(stage: Stage, agent: Agent, repository: ScratchRepository) -> None:
    """`git_status` and `git_diff_staged` run."""
    for tool in ("git_status", "git_diff_staged"):
        result = await agent.call(tool, {"repo_path": str(repository.path)})
        text = expect_result(result)
        require(not is_error(result), f"{tool} should have run: {text}")
        stage.narrator.done(f"{tool} ran:")
        stage.narrator.quote(text)


async def be_refused(stage: Stage, agent: Agent, repository: ScratchRepository) -> None:
    """`git_add` and `git_reset` are denied, and nobody is asked."""
    before = repository.git("status", "--porcelain")
    for tool, more in (("git_add", {"files": ["."]}), ("git_reset", {})):
        result = await agent.call(tool, {"repo_path": str(repository.path), **more})
        text = expect_result(result)
        require(is_error(result), f"{tool} should have been refused")
        stage.narrator.refused(f"{tool} was refused:")
        stage.narrator.quote(text)
    require(repository.git("status", "--porcelain") == before, "a refused call changed the repository")


async def commit(stage: Stage, agent: Agent, repository: ScratchRepository) -> None:
    """`git_commit` becomes a task, is approved, and one commit appears."""
    before = repository.commits()
    wish = Wish(
        "approve", None, "who asks, through which agent, the commit message, and the caution about what is staged"
    )
    arguments: dict[str, object] = {"repo_path": str(repository.path), "message": GOOD_MESSAGE}
    result = await follow(stage, agent, "git_commit", arguments, wish=wish)
    require(disposition(result) is Disposition.APPROVED_EXECUTED, f"the commit should have run: {text_of(result)}")
    require(repository.commits() == before + 1, "there should be exactly one new commit")
    stage.narrator.quote(text_of(result))
    stage.narrator.done("exactly one commit appeared; git log says:")
    stage.narrator.quote(repository.log())


async def be_denied(stage: Stage, agent: Agent, repository: ScratchRepository) -> None:
    """A second `git_commit` is denied with a reason, and no commit appears."""
    repository.stage("notes.txt", "things to do\n")
    before = repository.commits()
    wish = Wish("deny", REASON, f"the commit message, which says “{BAD_MESSAGE}” and nothing more")
    arguments: dict[str, object] = {"repo_path": str(repository.path), "message": BAD_MESSAGE}
    result = await follow(stage, agent, "git_commit", arguments, wish=wish)
    require(disposition(result) is Disposition.DENIED_NOT_EXECUTED, f"it should have been denied: {text_of(result)}")
    require(repository.commits() == before, "a denied commit appeared")
    stage.narrator.quote(text_of(result))
    stage.narrator.done("no commit appeared")
