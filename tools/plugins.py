"""What is found by name: our own parts from a table, those of other packages by entry points.

A plug-in that breaks is named, with the package it comes from.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import Profile, Timing, TimingNotMeasured, Verdict

EXECUTORS = "cuda_harness.executors"
"""Group of functions `(argument, *, settings, cancel)` that return an executor."""

PROVIDERS = "cuda_harness.providers"
"""Group of functions `(argument, *, role, settings)` that return a chat model."""

SKILLS = "cuda_harness.skills"
"""Group of folders with skill notes: the object is a path, or a function without arguments that returns one; the notes
lie in its `skills/`."""

PROFILERS = "cuda_harness.profilers"
"""Group of functions that explain a verified kernel better than the built-in profile, or return `None`."""


def registered(group: str) -> list[EntryPoint]:
    """Return the plug-ins of a group, sorted by name."""
    return sorted(entry_points(group=group), key=lambda e: e.name)


def known(group: str, built_in: Mapping[str, str]) -> dict[str, str]:
    """Return short name -> `module:attribute` of a group's plug-ins and of our own, whose names nobody takes over."""
    return {**{e.name: e.value for e in registered(group)}, **built_in}


def attribute(where: str) -> Any:  # noqa: ANN401 - whatever is called so
    """Return what `module:attribute` names; whatever importing it raises passes through."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def load(plugin: EntryPoint) -> Any:  # noqa: ANN401 - whatever the plug-in registers
    """Return the object that a plug-in registers.

    Raises:
        ConfigError: If importing it fails, whatever it raises; names plug-in, object and package.
    """
    try:
        return plugin.load()
    except Exception as exc:
        raise _broken(plugin, exc) from exc


def skill_folders() -> tuple[Path, ...]:
    """Return the folders that plug-ins add to the skills; raises ConfigError naming one that is broken."""
    found = []
    for plugin in registered(SKILLS):
        made = load(plugin)
        try:
            folder = Path(made() if callable(made) else made)
            if not (folder / "skills").is_dir():
                msg = f"{str(folder)!r} has no folder 'skills'"
                raise FileNotFoundError(msg)  # noqa: TRY301 - told with the plug-in's name below
        except Exception as exc:
            raise _broken(plugin, exc) from exc
        found.append(folder)
    return tuple(found)


def explained(
    profile: Profile,
    *,
    kernel: Kernel,
    ir: KernelIR | None,
    verdict: Verdict,
    timing: Timing | TimingNotMeasured,
) -> Profile:
    """Return the profile that the registered profilers make of the built-in one, each of the one before it.

    A profiler is called with these five by keyword; it returns a `Profile`, or `None` to leave it as it is.

    Raises:
        ConfigError: If one breaks or returns something else; names it.
    """
    for plugin in registered(PROFILERS):
        explain = load(plugin)
        try:
            made: Any = explain(profile=profile, kernel=kernel, ir=ir, verdict=verdict, timing=timing)
            if made is not None and not isinstance(made, Profile):
                msg = f"it returned {type(made).__name__}, not a Profile or None"
                raise TypeError(msg)  # noqa: TRY301 - told with the plug-in's name below
        except Exception as exc:
            raise _broken(plugin, exc) from exc
        profile = made or profile
    return profile


def _broken(plugin: EntryPoint, error: Exception) -> ConfigError:
    package = plugin.dist.name if plugin.dist is not None else "an unknown package"
    msg = f"the plug-in {plugin.name!r} ({plugin.group}: {plugin.value}) of {package} is broken: {type(error).__name__}: {error}"
    return ConfigError(msg, remedy=f"mend {package}, or remove it: pip uninstall {package}")
