"""Executors by name, loaded on demand; others are registered under the entry point `cuda_harness.executors`."""

import os
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

from cuda_harness.state.errors import ConfigError, ExecutorUnavailable, HarnessError
from cuda_harness.state.settings import Settings
from cuda_harness.tools import plugins
from cuda_harness.tools.execute.protocol import Executor

_BUILT_IN: dict[str, str] = {
    "cpu": "cuda_harness.tools.execute.cpu.executor:make",
    "cuda": "cuda_harness.tools.execute.cuda.executor:make",
}
Factory = Callable[..., Executor]


def known() -> dict[str, str]:
    """Return short name -> `module:attribute` of every executor."""
    return plugins.known(plugins.EXECUTORS, _BUILT_IN)


def executor(name: str, *, settings: Settings, cancel: threading.Event | None = None) -> Executor:
    """Return the executor called `name`: `auto`, `cpu`, or a registered one with an optional `:argument`.

    When `cancel` is set, its running children are ended at once.

    Raises:
        ConfigError: If no executor has this name; lists the known ones.
        ExecutorUnavailable: If it cannot work on this machine, or a plug-in breaks; names it.
    """
    table = known()
    short, _, argument = name.partition(":")
    if short == "auto":
        short, argument = ("cuda", "auto") if has_gpu() else ("cpu", "")
    if short not in table:
        msg = f"unknown executor {name!r}"
        raise ConfigError(msg, remedy=f"choose one of: auto, {', '.join(sorted(table))}")
    factory = _load(short, table[short])
    if short in _BUILT_IN:
        return factory(argument, settings=settings, cancel=cancel)
    try:
        return factory(argument, settings=settings, cancel=cancel)
    except HarnessError:
        raise
    except Exception as exc:
        why = f"the plug-in {table[short]!r} failed: {type(exc).__name__}: {exc}"
        raise ExecutorUnavailable(name, why, remedy="mend or remove it") from exc


@cache
def has_gpu(devices: Path = Path("/dev")) -> bool:
    """Return whether an NVIDIA driver with a device that is not hidden is here, without making a context."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in {"", "-1", "NoDevFiles"}:
        return False
    return (devices / "nvidiactl").exists() and any(devices.glob("nvidia[0-9]*"))


def _load(name: str, where: str) -> Factory:
    try:
        made: Factory = plugins.attribute(where)
    except Exception as exc:
        raise ExecutorUnavailable(
            name, f"loading {where!r} failed: {exc}", remedy="reinstall or remove it"
        ) from exc
    return made
