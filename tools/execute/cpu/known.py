"""What device code runs on the CPU executor, in a few lines for its author: read from the shim headers and the PTX table."""

import re
from functools import cache
from pathlib import Path

from cuda_harness.tools.execute.cpu.cache import INCLUDE
from cuda_harness.tools.execute.cpu.ptx_table import opcodes

_INTRINSIC = re.compile(
    r"\b__(?:sync\w+|threadfence\w*|(?:all|any|ballot|match|shfl|reduce)\w*_sync|activemask|ld[a-z]{1,2}|st[a-z]{2}|pipeline_\w+|nanosleep)\b"
)
_FAMILIES = (
    "__shfl_",
    "__reduce_",
    "__syncthreads",
    "__threadfence",
    "__match_",
    "__pipeline_",
    "__ld",
    "__st",
)
"""Names that a C++ programmer would not guess: barriers, fences, warp operations, cached accesses, asynchronous copies."""


@cache
def known_device_code() -> tuple[str, ...]:
    """Return headers, intrinsics of threads and memory, and PTX opcodes, one line each."""
    return (
        f"headers: {' '.join(_headers())}",
        f"threads and memory: {' '.join(_intrinsics())}",
        f"inline asm: {' '.join(opcodes())}",
    )


def _files() -> list[Path]:
    return sorted(p for p in INCLUDE.rglob("*") if p.is_file())


def _public_headers() -> list[str]:
    """Return what a kernel may include, by the name in angle brackets."""
    return [str(p.relative_to(INCLUDE)) for p in _files() if not p.name.startswith("sim")]


def _headers() -> list[str]:
    """Return them with those of one folder and ending in one pair of braces."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in _public_headers():
        folder, slash, name = path.rpartition("/")
        stem, dot, ending = name.partition(".")
        start = next((s for s in ("block_", "warp_") if stem.startswith(s)), "")
        found.setdefault((folder + slash + start, dot + ending), []).append(stem.removeprefix(start))
    return [_braced(before, rest, after) for (before, after), rest in found.items()]


def _intrinsics() -> list[str]:
    """Return the names of intrinsics that stand anywhere in the headers, families in braces."""
    text = "\n".join(p.read_text(encoding="utf-8") for p in _files())
    found: dict[str, list[str]] = {}
    for name in sorted(n for n in set(_INTRINSIC.findall(text)) if not n.endswith("_")):
        family = next((f for f in _FAMILIES if name.startswith(f)), name)
        found.setdefault(family, []).append(name.removeprefix(family))
    return [_braced(before, rest, "") for before, rest in found.items()]


def _braced(before: str, names: list[str], after: str) -> str:
    return f"{before}{{{','.join(names)}}}{after}" if len(names) > 1 else f"{before}{names[0]}{after}"
