"""What the pages say can be done is done: each block marked `offline` runs, page by page, in a folder of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([
    *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), ROOT / "examples/platform/README.md",
])  # fmt: skip
_BLOCK = re.compile(r"^```(console|python) offline\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(kind, body) for kind, body in _BLOCK.findall(page.read_text(encoding="utf-8"))]


RUNNABLE = [page for page in PAGES if blocks(page)]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNABLE, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_offline_block_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for kind, body in blocks(page):
        if kind == "console":
            lines = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
            assert lines, body
            command = ["bash", "-euc", "\n".join(lines)]
        else:
            command = [sys.executable, "-c", body]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{body}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


def test_the_pages_that_promise_commands_have_some() -> None:
    names = {page.name for page in RUNNABLE}
    assert {
        "tutorial.md",
        "models.md",
        "notebook.md",
        "judge.md",
        "embed.md",
        "traces.md",
        "plugins.md",
    } <= names
