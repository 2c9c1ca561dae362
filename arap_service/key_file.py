"""The file with the keys that seal the database: named 32-byte keys, one of which seals, all of which open.

    {"current": "2026-04", "keys": {"2026-04": "<base64>", "2026-01": "<base64>"}}

To rotate, add a key, make it current and keep the old one as long as rows sealed with it exist. Losing the file is
losing what the database holds; it is read once, at the start, and never written by a running service.
"""

import base64
import json
import os
import secrets
from pathlib import Path
from typing import Any

from arap_service.protocol.canonical import InvalidJson, strict_loads
from arap_service.protocol.sealing import KeyRing
from arap_service.yaml_files import SettingsInvalid


def load_ring(path: Path) -> KeyRing:
    """The key ring in the file at `path`.

    Raises:
        SettingsInvalid: It cannot be read, is no such file or can be read by everybody.
    """
    try:
        readable = path.stat().st_mode & 0o004
        document = strict_loads(path.read_bytes())
    except OSError as error:
        raise SettingsInvalid(
            (f"key_file: {path} cannot be read ({error.strerror}); make one with arap init",)
        ) from None
    except InvalidJson:
        raise SettingsInvalid((f"key_file: {path} is not valid JSON",)) from None
    if readable and os.name == "posix":
        raise SettingsInvalid((f"key_file: everybody can read {path}; run chmod 600 on it",))
    try:
        content: Any = document
        keys = {name: base64.b64decode(key, validate=True) for name, key in content["keys"].items()}
        return KeyRing(keys, str(content["current"]))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise SettingsInvalid(
            (f'key_file: {path} must have the form {{"current": "a", "keys": {{"a": "<base64 of 32 bytes>"}}}}',)
        ) from None


def write_new_ring(path: Path) -> None:
    """Write a file with one fresh key to `path`, which must not exist, readable by its owner alone."""
    document = {"current": "first", "keys": {"first": base64.b64encode(secrets.token_bytes(32)).decode()}}
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
