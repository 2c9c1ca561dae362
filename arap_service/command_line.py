"""What all commands share: where the configuration is, and how they fail.

Whatever an operator can get wrong is one line per fault on standard error and status 1; tracebacks are for our own
mistakes. No command stands here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer

from arap_service import dev
from arap_service.breached import ListUnusable
from arap_service.directory import DirectoryInvalid
from arap_service.domain.policy_load import PolicyInvalid
from arap_service.serving import CannotListen
from arap_service.settings import Settings
from arap_service.store import migrate
from arap_service.store.database import Database, StoreUnavailable, WriteSession
from arap_service.web.passwords import WeakPassword
from arap_service.yaml_files import SettingsInvalid

Result = TypeVar("Result")
Config = Annotated[Path, typer.Option("--config", "-c", envvar="ARAP_CONFIG", help="The configuration file.")]
DEFAULT_CONFIG = Path("arap.yaml")


def writing(settings: Settings, work: Callable[[WriteSession], Result]) -> Result:
    """Run one unit of work on the configured database."""
    opened = Database.open(settings.database)
    try:
        return opened.write_now(work)
    finally:
        opened.close()


@contextmanager
def failing_clearly() -> Iterator[None]:
    """Turn what an operator can mend into lines on standard error and status 1."""
    try:
        yield
    except (SettingsInvalid, DirectoryInvalid) as error:
        fail(*error.problems)
    except PolicyInvalid as error:
        fail(*(f"policy: line {fault.line}: {fault.pointer or '/'}: {fault.message}" for fault in error.problems))
    except ListUnusable as error:
        fail(f"login.breached_passwords: {error}")
    except (StoreUnavailable, migrate.SchemaOutdated, CannotListen, WeakPassword, dev.NoToken) as error:
        fail(str(error))
    except UnicodeDecodeError:
        fail("the file is not UTF-8 text")
    except OSError as error:
        fail(f"{error.filename or 'system'}: {error.strerror}")


def fail(*lines: str) -> NoReturn:
    """Print `lines` and leave with status 1."""
    for line in lines:
        typer.echo(f"arap: {line}", err=True)
    raise typer.Exit(1)
