"""Whether a run that is resumed still means what it meant: the request, the toolchain, the device."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cuda_harness.graph.session import versions
from cuda_harness.state.errors import ConfigError, ToolchainError
from cuda_harness.state.serde import sha256

if TYPE_CHECKING:
    from cuda_harness.agents.context import Services

TOOLCHAIN = ("cuda-harness", "cuda-core", "nvidia-cuda-nvrtc", "numpy")
"""Packages whose version changes what a kernel becomes or how it is judged."""


def note_circumstances(services: "Services") -> None:
    """Write into the manifest what a resumed run is held against; only once, by the session that opened the run."""
    manifest = services.folder.read_json("manifest.json")
    if "circumstances" in manifest:
        return
    found = circumstances(services)
    manifest["circumstances"] = found
    manifest["gpu"] = found["device"] if str(found["executor"]).startswith("cuda") else None
    services.folder.write_json("manifest.json", manifest)


def circumstances(services: "Services") -> dict[str, Any]:
    """Return request, toolchain and device as they are now; `None` where this machine has no such executor."""
    known = versions()
    try:
        executor = services.executor
        name, device = executor.name, executor.device().name
    except ToolchainError:
        name, device = None, None
    return {
        "request": sha256(services.folder.read_text("request.txt").strip()),
        "ir": sha256(services.folder.read_json("ir.json")) if services.folder.exists("ir.json") else None,
        "target": services.target,
        "executor": name,
        "device": device,
        **{package: known.get(package) for package in TOOLCHAIN},
    }


_WORDS = {"request": "the request", "ir": "ir.json", "target": "the target architecture"}


def differences(noted: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return what differs, one sentence each; what was not noted does not count."""
    found = []
    for name, before in noted.items():
        after = now.get(name)
        if before is None or before == after:
            continue
        if name in {"request", "ir"}:
            found.append(f"{_WORDS[name]} was changed")
        else:
            found.append(f"{_WORDS.get(name, name)} was {before!r} and is {after!r}")
    return found


def require_same(services: "Services", *, ir_sha256: str | None) -> None:
    """Pass, or refuse to go on.

    Args:
        services: Of the resumed run.
        ir_sha256: Identity of the IR that the run has planned, `None` before it did.

    Raises:
        ConfigError: Says what differs; the user may force it.
    """
    noted = services.folder.read_json("manifest.json").get("circumstances")
    if not isinstance(noted, dict):
        return
    now = circumstances(services)
    found = differences({**noted, "ir": ir_sha256}, now)
    if found:
        msg = f"this run would go on under other conditions: {'; '.join(found)}"
        raise ConfigError(msg, remedy="restore them, start a new run, or go on all the same with --force")
