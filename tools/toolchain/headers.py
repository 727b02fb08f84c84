"""Where the CUDA headers of this machine lie, and which versions compile: part of every cache key."""

import functools
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cuda_harness.state.serde import sha256

HERE = Path(__file__).resolve().parent
PRELUDE = HERE / "prelude.h"
DEVICE_HEADERS = HERE / "include"
"""Our own stand-ins for umbrella headers that NVRTC cannot take whole."""
_PACKAGES = (
    "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime",
    "nvidia-cuda-runtime-cu12", "nvidia-cuda-cccl", "nvidia-cuda-cccl-cu12", "nvidia-cuda-crt",
)  # fmt: skip
ABI = "1"
"""Raised when the meaning of a cached object changes."""


@functools.lru_cache(maxsize=64)
def prelude(defines: str = "") -> str:
    """Return the text before every kernel, ending with the line directive that restores its numbering.

    `defines` come last: a tunable may have the name of something in the prelude.
    """
    return PRELUDE.read_text(encoding="utf-8") + f'\n{defines}#line 1 "kernel.cu"\n'


@functools.cache
def include_folders() -> tuple[str, ...]:
    """Return the folders of CUDA and CCCL headers, wheels first; empty when nothing is installed."""
    from cuda.pathfinder import find_nvidia_header_directory

    found = [str(DEVICE_HEADERS)] if DEVICE_HEADERS.is_dir() else []
    for library in ("cudart", "cccl"):
        try:
            folder = find_nvidia_header_directory(library)
        except Exception:  # noqa: BLE001 - pathfinder raises its own classes; absent is absent
            folder = None
        if folder and folder not in found:
            found.append(folder)
    return (*found, *_inner_headers(found))


def _inner_headers(found: list[str]) -> tuple[str, ...]:
    """Return the folder of `crt/`, which the runtime's headers include: a wheel of its own, or part of a toolkit.

    It comes last, and only when its release is that of the runtime's headers.
    """
    from cuda.pathfinder import find_nvidia_header_directory

    if not found or any((Path(folder) / "crt" / "mma.h").is_file() for folder in found):
        return ()
    try:
        folder = find_nvidia_header_directory("nvcc")
    except Exception:  # noqa: BLE001 - pathfinder raises its own classes; absent is absent
        folder = None
    if folder is None or not (Path(folder) / "crt" / "mma.h").is_file():
        return ()
    releases = {_release(Path(f)) for f in (*found, folder)} - {None}
    return (folder,) if len(releases) <= 1 else ()


def _release(folder: Path) -> str | None:
    """Return major and minor of the CUDA runtime whose headers lie in a folder, `None` when there are none."""
    path = folder / "cuda_runtime_api.h"
    if not path.is_file():
        return None
    found = re.search(
        r"^#define\s+CUDART_VERSION\s+(\d+)", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE
    )
    return str(int(found[1]) // 10) if found else None


@functools.cache
def toolchain_identity() -> str:
    """Return a hash over versions, headers' places and our prelude: equal only when results are."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    own = (
        [p.read_text() for p in sorted(DEVICE_HEADERS.rglob("*")) if p.is_file()]
        if DEVICE_HEADERS.is_dir()
        else []
    )
    return sha256(
        {"abi": ABI, "versions": versions, "folders": include_folders(), "prelude": prelude(), "own": own}
    )
