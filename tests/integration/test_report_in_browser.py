"""The report in a real browser: the console stays empty, and the policy lets our own style through."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.fakes.finished_run import finished_run

from cuda_harness.graph.report.page import write_report

BROWSER = next((b for b in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if b), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium (Debian: apt-get install chromium)")


def look(page: Path, profile: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
        "--v=0", f"--user-data-dir={profile}", *options, page.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def test_the_console_stays_empty_and_no_script_of_the_run_runs(tmp_path: Path) -> None:
    page = write_report(finished_run(tmp_path))

    seen = look(page, tmp_path / "profile", "--dump-dom")

    assert not [line for line in seen.stderr.splitlines() if "CONSOLE" in line]
    assert "<script" not in seen.stdout
    assert seen.stdout.count("<section") == page.read_text().count("<section")


def test_a_broken_policy_would_be_seen_on_the_console(tmp_path: Path) -> None:
    page = write_report(finished_run(tmp_path))
    page.write_text(page.read_text().replace("</style>", " .x{}</style>"))

    seen = look(page, tmp_path / "profile", "--dump-dom")

    assert re.search(r"CONSOLE.*(?i:content security policy)", seen.stderr)
