"""Which basic blocks of a compiled kernel ran, as places in kernel.cu: check mode's builds tell of each block's start."""

import functools
import struct
from collections.abc import Iterable
from pathlib import Path

from cuda_harness.tools.execute.cpu.lines import Place, places_of
from cuda_harness.tools.execute.protocol import Coverage

_HOOK = "__sanitizer_cov_trace_pc"
_CALL = b"\xff\x15"
"""x86-64: call through a slot of the table of addresses, at a 32-bit distance from the next instruction."""


def coverage_of(library: Path, reached: Iterable[int]) -> Coverage | None:
    """Return the places of all blocks and of those that ran, `None` where the file does not tell.

    Args:
        library: A kernel compiled for check mode.
        reached: Offsets in the file right after the calls by which blocks told that they run.
    """
    places = _blocks(str(library))
    if not places:
        return None
    ran = {places[at] for at in reached if at in places}
    return Coverage(
        frozenset((p.line, p.column) for p in places.values()), frozenset((p.line, p.column) for p in ran)
    )


@functools.lru_cache(maxsize=64)
def _blocks(library: str) -> dict[int, Place]:
    """Return the place of each block that lies in kernel.cu, by the offset right after the call at its start."""
    try:
        data = Path(library).read_bytes()
        after = _calls(data)
    except (OSError, IndexError, ValueError, struct.error):
        return {}
    found = places_of(Path(library), [at - 1 for at in after])
    return {at: found[at - 1] for at in after if at - 1 in found}


def _calls(data: bytes) -> list[int]:
    """Return the offsets right after each call of the hook."""
    offset = struct.unpack_from("<Q", data, 40)[0]
    size, count, _ = struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    slots = set()
    for _, kind, _, _, at, length, link, _, _, entry in sections:
        if kind != 4 or sections[link][1] not in {2, 11}:  # SHT_RELA of a symbol table
            continue
        symbols = sections[link][4]
        strings = sections[sections[link][6]][4]
        for i in range(length // entry):
            slot, info, _ = struct.unpack_from("<QQq", data, at + i * entry)
            name = strings + struct.unpack_from("<I", data, symbols + (info >> 32) * 24)[0]
            if data[name : name + len(_HOOK) + 1] == _HOOK.encode() + b"\0":
                slots.add(slot)
    found = []
    for _, _, flags, address, at, length, *_ in sections:
        if not flags & 4:  # SHF_EXECINSTR
            continue
        place = data.find(_CALL, at, at + length)
        while place >= 0:
            after = place + 6
            if (
                after <= at + length
                and address + after - at + struct.unpack_from("<i", data, place + 2)[0] in slots
            ):
                found.append(address + after - at)
            place = data.find(_CALL, place + 1, at + length)
    return found
