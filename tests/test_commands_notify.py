"""`arap notify test` sends one message by a channel and says what came of it; the doctor looks at addresses only."""

from pathlib import Path

import anyio.to_thread
import pytest
import yaml
from typer.testing import CliRunner, Result

from arap_service.channels import fault_of
from arap_service.cli import app
from arap_service.doctor import State, _channels
from arap_service.key_file import write_new_ring
from arap_service.settings import load_settings
from tests.mail import mail_server, text_of
from tests.peers import POLICY

pytestmark = pytest.mark.anyio
SECRET = "hunter2-hunter2"


def configured(folder: Path, **channels: object) -> Path:
    write_new_ring(folder / "keys.json")
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    values = {
        "identifier": "https://approvals.example",
        "policy_path": "policy.yaml",
        "key_file": "keys.json",
        "builtin_issuer": {"enabled": True},
        "notifications": {"channels": channels},
    }
    path = folder / "arap.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


async def tried(config: Path, *words: str) -> Result:
    call = ["notify", "test", *words, "--config", str(config)]
    return await anyio.to_thread.run_sync(lambda: CliRunner().invoke(app, call))


async def test_message_arrives_and_the_command_says_so(tmp_path: Path) -> None:
    async with mail_server() as mailbox:
        (tmp_path / "mail.url").write_text(mailbox.url + "\n", encoding="utf-8")
        config = configured(tmp_path, mail={"url_file": "mail.url"})
        done = await tried(config, "mail", "--to", "kim@example.com")
        assert (done.exit_code, done.output) == (0, "mail: taken by the server; look whether it arrives\n")
        [message] = mailbox.to("kim@example.com")
        assert message["subject"] == "A test from the approvals desk"
        assert "nothing waits for you" in text_of(message)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("mail", "--to", "kim@example.com"), "not sent: the server could not be reached, or did not take it"),
        (("mail",), "name a mailbox with --to"),
        (("odd",), "not sent: its address is not one that Apprise understands"),
        (("gone",), "not sent: the file with its address cannot be read"),
        (("other",), "there is no channel other; configured: gone, mail, odd"),
    ],
)
async def test_what_fails_is_said_and_no_secret_with_it(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    config = configured(
        tmp_path,
        mail={"url": f"mailto://desk:{SECRET}@127.0.0.1:1?from=d@example.com&to={{email}}"},
        odd={"url": f"nonsense://{SECRET}"},
        gone={"url_file": "gone.url"},
    )
    done = await tried(config, *words)
    assert done.exit_code == 1
    assert said in done.output
    assert SECRET not in done.output


async def test_doctor_names_the_channels_whose_address_is_none(tmp_path: Path) -> None:
    config = configured(
        tmp_path, mail={"url": "mailto://127.0.0.1?from=d@example.com&to={email}"}, odd={"url": "nonsense://x"},
        gone={"url_file": "gone.url"},
    )  # fmt: skip
    settings = load_settings(config)
    found = {finding.check.rpartition(".")[2]: finding.state for finding in _channels(settings)}
    assert found == {"mail": State.OK, "odd": State.FAILED, "gone": State.FAILED}
    assert fault_of(settings.notifications.channels["gone"]) == "address_unreadable"
