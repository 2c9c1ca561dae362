"""Chromium from the system, and a desk for it to visit."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from arap_service.web import passwords
from tests.browser.server import RunningDesk, running_desk
from tests.legs import chromium
from tests.web.desk import QUICK

PATIENCE_MS = 30_000  # as long as a page may take on a machine that does much else; a test that passes does not wait


@pytest.fixture(scope="module")
def chromium_browser() -> Iterator[Browser]:
    """One browser for a module, because its driver occupies the event loop of this thread; a context for each test."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningDesk]:
    """A desk with two maintainers and no requests."""
    monkeypatch.setattr(passwords, "_HASHER", QUICK)
    with running_desk(tmp_path) as running:
        yield running
