"""Changes the file with the keys that seal the gate's tasks: adds a key, and says which one seals from now on.

No key is ever removed here, because what an earlier one sealed must still open. The file is replaced as a whole, so
that whoever reads it finds the old or the new one; a gate reads it when it starts.
"""

import base64
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mcp_gate.settings import KEY_BYTES, ConfigurationInvalid, read_keys


def add_key(path: Path, *, make_current: bool) -> str:
    """Adds a fresh key and returns its name; with `make_current` it seals from now on.

    Raises:
        ConfigurationInvalid: The file can't be read or replaced; it is as it was.
    """
    with _replacing(path) as file:
        current, keys = read_keys(path)
        name = next(free for number in range(1, len(keys) + 2) if (free := f"k{number}") not in keys)
        keys[name] = secrets.token_bytes(KEY_BYTES)
        _write(file, keys, current=name if make_current else current)
    return name


def use_key(path: Path, name: str) -> None:
    """Has a key that the file already holds seal from now on.

    Raises:
        ConfigurationInvalid: There is no such key, or the file can't be read or replaced; it is as it was.
    """
    with _replacing(path) as file:
        _, keys = read_keys(path)
        if name not in keys:
            raise ConfigurationInvalid(f"key_file: {path} holds no key of this name; it has {', '.join(keys)}")
        _write(file, keys, current=name)


def _write(file: IO[str], keys: Mapping[str, bytes], *, current: str) -> None:
    lines = [f"  {json.dumps(name)}: {base64.b64encode(key).decode()}\n" for name, key in keys.items()]
    file.writelines([f"current: {json.dumps(current)}\n", "keys:\n", *lines])


@contextmanager
def _replacing(path: Path) -> Iterator[IO[str]]:
    """A new file beside the one at `path`, in whose place it is put when the block ends well.

    Its name is always the same, so that of two who change the keys at once one is refused and no key gets lost.
    """
    target = path.resolve()
    beside = target.with_name(f"{target.name}.new")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigurationInvalid(
            f"key_file: {beside} is there: the keys are being changed, or that was interrupted; then remove it"
        ) from None
    except OSError:
        raise ConfigurationInvalid(f"key_file: cannot write beside {path}; check the folder's owner and mode") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            yield file
            _keep_owner(file.fileno(), target)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ConfigurationInvalid(f"key_file: {path} cannot be replaced; check its owner and the disk") from None
        raise
    _sync(target.parent)


def _keep_owner(descriptor: int, target: Path) -> None:
    """The file stays with the account that runs the gate, also when another one changes the keys."""
    before, now = target.stat(), os.fstat(descriptor)
    if (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
        os.fchown(descriptor, before.st_uid, before.st_gid)


def _sync(folder: Path) -> None:
    """Make the new name last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
