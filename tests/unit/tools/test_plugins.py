"""Plug-ins of other packages: real entry points of a package on the path, whole and broken ones."""

import itertools
from pathlib import Path

import pytest

from cuda_harness.prompts.loader import Prompts
from cuda_harness.state.errors import ConfigError, ExecutorUnavailable
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.results import Profile, TimingNotMeasured, Verdict
from cuda_harness.state.settings import Settings
from cuda_harness.tools.execute import registry
from cuda_harness.tools.plugins import explained, skill_folders

_COUNT = itertools.count()
NOTE = """---
name: our_trick
source: Our handbook
example: axpy
applies_to: elementwise
---
Do it {{ our }} way.
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Package":
    monkeypatch.syspath_prepend(str(tmp_path))
    return Package(tmp_path)


class Package:
    """A package with one module and entry points, as pip would have installed it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.module = f"other_package_{next(_COUNT)}"

    def install(self, code: str, group: str, name: str, attribute: str) -> None:
        (self.root / f"{self.module}.py").write_text(code)
        info = self.root / "other_package-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {self.module}:{attribute}\n")


def test_a_folder_of_notes_is_added_to_the_skills(package: Package) -> None:
    (package.root / "notes/skills").mkdir(parents=True)
    (package.root / "notes/skills/our_trick.md").write_text(NOTE)
    package.install(
        f"def folder(): return {str(package.root / 'notes')!r}", "cuda_harness.skills", "ours", "folder"
    )

    prompts = Prompts(more=skill_folders())

    assert "our_trick" in prompts.skills()
    assert "coalescing" in prompts.skills()
    assert prompts.skill("our_trick").text == "Do it {{ our }} way."


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("", "has no attribute 'folder'"),
        ("def folder(): return '/nowhere'", "has no folder 'skills'"),
        ("folder = 7", "TypeError"),
    ],
)
def test_a_broken_plug_in_is_named_with_its_package(package: Package, code: str, says: str) -> None:
    package.install(code, "cuda_harness.skills", "ours", "folder")
    with pytest.raises(ConfigError, match=says) as caught:
        skill_folders()
    assert "'ours'" in caught.value.message
    assert "other-package" in caught.value.message
    assert caught.value.remedy


def test_an_executor_of_another_package_is_found_by_its_name(package: Package) -> None:
    package.install(
        "def make(argument, *, settings, cancel): return (argument, settings.out, cancel)",
        "cuda_harness.executors", "cluster", "make",
    )  # fmt: skip
    assert registry.executor("cluster:a", settings=Settings(out="o")) == ("a", "o", None)  # type: ignore[comparison-overlap]


@pytest.mark.parametrize(
    ("code", "says"),
    [("def make(argument, **_): raise OSError('no route')", "OSError: no route"), ("import nothing_like_it", "nothing_like_it")],
)  # fmt: skip
def test_a_broken_executor_is_named(package: Package, code: str, says: str) -> None:
    package.install(code, "cuda_harness.executors", "cluster", "make")
    with pytest.raises(ExecutorUnavailable, match=says) as caught:
        registry.executor("cluster", settings=Settings())
    assert "cluster" in caught.value.message


KNOWN = Profile(rung="static", bound="unknown", sentence="nothing was measured")


def profile_of() -> Profile:
    kernel = Kernel(
        source="",
        plan=LaunchPlan.model_validate({"steps": [{"launch": "k", "grid": [1], "block": [1], "args": []}]}),
    )
    verdict = Verdict(outcome="accepted", executor="cpu")
    return explained(
        KNOWN, kernel=kernel, ir=None, verdict=verdict, timing=TimingNotMeasured(reason="no GPU")
    )


def test_a_profiler_replaces_the_profile_that_it_was_given(package: Package) -> None:
    code = "def explain(*, profile, timing, **_): return profile.model_copy(update={'sentence': timing.reason})\n"
    package.install(code, "cuda_harness.profilers", "ours", "explain")
    assert profile_of().sentence == "no GPU"


def test_a_profiler_may_have_nothing_to_say(package: Package) -> None:
    package.install("def explain(**_): return None\n", "cuda_harness.profilers", "ours", "explain")
    assert profile_of() == KNOWN


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def explain(**_): return 'fast'\n", "not a Profile"),
        ("def explain(**_): 1 / 0\n", "ZeroDivisionError"),
    ],
)
def test_a_profiler_that_breaks_is_named(package: Package, code: str, why: str) -> None:
    package.install(code, "cuda_harness.profilers", "ours", "explain")
    with pytest.raises(ConfigError, match=f"'ours'.*other-package.*{why}"):
        profile_of()
