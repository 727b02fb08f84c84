"""GPU architectures: names, limits, and what a Coder may use on them (CUDA C++ Programming Guide, technical tables)."""

from typing import Any

from pydantic import Field

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.serde import Model


class Target(Model):
    """One architecture and its limits."""

    arch: str
    name: str
    shared_bytes_per_block: int = 48 * 1024
    shared_bytes_optin: int
    shared_bytes_per_sm: int
    registers_per_sm: int = 65_536
    max_threads_per_sm: int
    max_threads_per_block: int = 1_024
    warp_size: int = 32
    features: tuple[str, ...] = Field(default=())
    typical: str = ""
    """A part that has it, for what an architecture alone does not tell; empty where its parts differ too much."""


_AMPERE = ("cp.async", "bf16 and tf32 wmma", "warp reduce instructions")
_ADA = (*_AMPERE, "fp8 conversions")
_HOPPER = (*_ADA, "TMA", "clusters", "distributed shared memory")
_BASE: dict[str, tuple[str, int, int, int, tuple[str, ...]]] = {
    "75": ("Turing", 64, 64, 1024, ("half and int8 wmma",)),
    "80": ("Ampere A100", 163, 164, 2048, _AMPERE),
    "86": ("Ampere consumer", 99, 100, 1536, _AMPERE),
    "87": ("Orin", 163, 164, 1536, _AMPERE),
    "88": ("Ampere", 163, 164, 1536, _AMPERE),
    "89": ("Ada", 99, 100, 1536, _ADA),
    "90": ("Hopper", 227, 228, 2048, _HOPPER),
    "100": ("Blackwell", 227, 228, 2048, _HOPPER),
    "103": ("Blackwell", 227, 228, 2048, _HOPPER),
    "110": ("Blackwell embedded", 227, 228, 1536, _HOPPER),
    "120": ("Blackwell consumer", 99, 100, 1536, _HOPPER),
    "121": ("Blackwell consumer", 99, 100, 1536, _HOPPER),
}
"""Number -> name, opt-in shared memory of a block and shared memory of a multiprocessor in KiB, threads, features."""
_TYPICAL = {
    "80": "A100 80GB: 108 multiprocessors, 40 MB L2, 2.0 TB/s",
    "90": "H100 SXM: 132 multiprocessors, 50 MB L2, 3.35 TB/s",
}
"""Number -> a part, by NVIDIA's data sheets."""
_SUFFIXES: dict[str, tuple[str, ...]] = {
    "90": ("", "a"), "100": ("", "a", "f"), "103": ("", "a", "f"), "110": ("", "a", "f"), "120": ("", "a", "f"),
    "121": ("", "a", "f"),
}  # fmt: skip


def known_targets() -> tuple[str, ...]:
    """Return every architecture name, oldest first."""
    return tuple(f"sm_{number}{suffix}" for number in _BASE for suffix in _SUFFIXES.get(number, ("",)))


def target(arch: str) -> Target:
    """Return an architecture; raises ConfigError listing the known ones."""
    if arch not in known_targets():
        msg = f"unknown target {arch!r}"
        raise ConfigError(msg, remedy=f"choose one of: {', '.join(known_targets())}")
    number = arch.removeprefix("sm_").rstrip("af")
    name, optin, sm, threads, features = _BASE[number]
    extra = (
        ("wgmma",)
        if arch == "sm_90a"
        else ("tcgen05",)
        if number in {"100", "103"} and arch[-1] in "af"
        else ()
    )
    return Target(
        arch=arch, name=name, shared_bytes_optin=optin * 1024, shared_bytes_per_sm=sm * 1024, max_threads_per_sm=threads,
        features=(*features, *extra), typical=_TYPICAL.get(number, ""),
    )  # fmt: skip


def facts_of(arch: str) -> dict[str, Any]:
    """Return what a prompt tells of an architecture."""
    return target(arch).model_dump(mode="json")
