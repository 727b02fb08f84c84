"""The rules of the house that no linter knows."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("agents", "graph", "tools", "state", "prompts")
SOURCES = sorted(p for layer in LAYERS for p in (ROOT / layer).rglob("*.py"))


def test_every_package_is_named_in_pyproject() -> None:
    named = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {"cuda_harness"}
    for layer in LAYERS:
        for init in (ROOT / layer).rglob("__init__.py"):
            found.add("cuda_harness." + ".".join(init.parent.relative_to(ROOT).parts))
    assert found == named


def test_every_data_file_is_packaged() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    packaged: set[Path] = set()
    for package, patterns in declared.items():
        if package != "cuda_harness":
            folder = ROOT.joinpath(*package.split(".")[1:])
            packaged |= {p for pattern in patterns for p in folder.glob(pattern)}
    data = {
        p
        for layer in LAYERS
        for p in (ROOT / layer).rglob("*")
        if p.is_file() and p.suffix not in {".py", ".pyc"}
    }
    assert data - packaged == set()


def test_the_symlinks_for_type_checkers_point_home() -> None:
    for layer in LAYERS:
        link = ROOT / "src" / "cuda_harness" / layer
        assert link.is_symlink()
        assert link.resolve() == ROOT / layer


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_absolute_imports_of_our_own(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import at line {node.lineno}"
            names = [node.module or ""]
        bare = [n for n in names if n.split(".")[0] in LAYERS]
        assert not bare, f"line {node.lineno}: import cuda_harness.{bare[0]}"


def test_bare_layer_names_are_not_importable(tmp_path: Path) -> None:
    probe = f"from importlib.util import find_spec; print([n for n in {LAYERS!r} if find_spec(n)])"
    done = subprocess.run(
        [sys.executable, "-c", probe], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_import_is_lazy(tmp_path: Path) -> None:
    probe = (
        "import sys, cuda_harness, cuda_harness.graph.cli; "
        "heavy = ('langgraph', 'langchain_core', 'langchain_openai', 'cuda', 'numpy', 'scipy', 'openai', 'langsmith'); "
        "print([h for h in heavy if h in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_tracked_files_name_no_machine() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode != 0:
        pytest.skip("not a git checkout")
    patterns = [f"/{part}/" for part in ("work", "root", "home")]
    for name in tracked.stdout.split():
        path = ROOT / name
        if (
            not path.is_file()
            or path.is_symlink()
            or path.suffix in {".png", ".ico"}
            or path == Path(__file__)
        ):
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        found = [p for p in patterns if p in text]
        assert not found or name.startswith("tests/"), f"{name} holds {found}"
