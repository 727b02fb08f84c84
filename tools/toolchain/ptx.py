"""What a kernel is made of, counted in the PTX that NVRTC made its cubin from: static counts, not executed ones.

PTX stands before ptxas' own optimisation, but its types are final: ptxas never narrows arithmetic. No disassembler is
needed, which the wheels do not have.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

from cuda_harness.state.results import InstructionMix, LowPrecision

MAX_PTX = 16 << 20
"""Characters of a PTX text that are read."""
NARROW = frozenset(
    {"f16", "f16x2", "bf16", "bf16x2", "tf32", "e4m3", "e5m2", "e4m3x2", "e5m2x2", "e2m1", "e2m3", "e3m2"}
)
_ROUNDING = frozenset(
    {
        "add",
        "sub",
        "mul",
        "fma",
        "mad",
        "mma",
        "wmma",
        "wgmma",
        "tcgen05",
        "ex2",
        "tanh",
        "rcp",
        "atom",
        "red",
    }
)
_TENSOR = frozenset({"mma", "wmma", "wgmma", "tcgen05"})
_START = re.compile(r"^(?:\.visible\s+|\.weak\s+|\.extern\s+)*\.(entry|func)\b(.*)")
_NAME = re.compile(r"([A-Za-z_$%][\w$]*)\s*\(?\s*$|([A-Za-z_$%][\w$]*)\s*\(")
_OPCODE = re.compile(r"[{\s]*(?:@!?%p\d+\s+)?([a-z][a-z0-9_]*(?:\.[A-Za-z0-9_:]+)*)(?=[\s;]|$)")
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*inlined_at\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r"^\s*\.file\s+(\d+)\s+\"([^\"]*)\"")
_TYPE = re.compile(r"(?:f16|bf16|tf32|f32|f64|s8|u8|s4|u4|b1|s32)$")
_BITS = re.compile(r"[bsuf](8|16|32|64|128)$")


@dataclass
class _Function:
    name: str
    entry: bool
    opcodes: list[tuple[str, tuple[int, int]]] = field(default_factory=list)
    """Opcode and the (file, line) it stands at."""
    calls: set[str] = field(default_factory=set)


def instruction_mixes(ptx: str) -> tuple[InstructionMix, ...]:
    """Return the counts of each entry, with those of the functions that it calls; empty for text that is no PTX."""
    files: dict[int, str] = {}
    functions: dict[str, _Function] = {}
    current: _Function | None = None
    place, depth = (0, 0), 0
    for line in ptx[:MAX_PTX].splitlines():
        started = _START.match(line)
        if started:
            name = _function_name(started.group(2))
            current, depth = (_Function(name, started.group(1) == "entry") if name else None), 0
            if current is not None:
                functions[current.name] = current
            continue
        if (file := _FILE.match(line)) is not None:
            files[int(file.group(1))] = file.group(2)
        elif (loc := _LOC.match(line)) is not None:
            at, row = (loc.group(3), loc.group(4)) if loc.group(3) else (loc.group(1), loc.group(2))
            place = (int(at), int(row))
        elif current is not None:
            if depth and not line.lstrip().startswith((".", "//")):
                _collect(current, line, place)
            before, depth = depth, depth + line.count("{") - line.count("}")
            if before and depth <= 0:
                current = None
    own = {number for number, name in files.items() if name.endswith("kernel.cu")}
    return tuple(_mix(f, functions, own) for f in functions.values() if f.entry and f.opcodes)


def _function_name(rest: str) -> str:
    """Return the name in `(.param .b32 r) name(` or `name(`."""
    text = re.sub(r"^\s*\([^)]*\)", "", rest)
    found = _NAME.search(text)
    return (found.group(1) or found.group(2)) if found else ""


def _collect(function: _Function, line: str, place: tuple[int, int]) -> None:
    if "call" in line:
        function.calls |= set(re.findall(r"[A-Za-z_$][\w$]*", line))
    for part in line.split(";"):
        found = _OPCODE.match(part)
        if found:
            function.opcodes.append((found.group(1), place))
            if found.group(1).startswith("call"):
                function.calls |= set(re.findall(r"[A-Za-z_$][\w$]*", part))
        else:  # the name of a called function stands on a line of its own
            function.calls |= set(re.findall(r"^\s*([A-Za-z_$][\w$]*)\s*,?\s*$", part))


def _mix(entry: _Function, functions: dict[str, _Function], own: set[int]) -> InstructionMix:
    reached: set[str] = set()
    waiting = [entry.name]
    while waiting:
        name = waiting.pop()
        if name in functions and name not in reached:
            reached.add(name)
            waiting += functions[name].calls
    loads: Counter[str] = Counter()
    stores: Counter[str] = Counter()
    low: Counter[str] = Counter()
    lines: dict[str, int] = {}
    kinds: Counter[str] = Counter()
    total = 0
    for name in sorted(reached):
        for opcode, (file, row) in functions[name].opcodes:
            total += 1
            parts = opcode.split(".")
            if parts[0] in {"ld", "st"} and "global" in parts:
                (loads if parts[0] == "ld" else stores)[str(_width(parts))] += 1
            for kind in _kinds(parts):
                kinds[kind] += 1
            if _narrows(parts):
                low[opcode] += 1
                if file in own and row:
                    lines.setdefault(opcode, row)
    return InstructionMix(
        kernel=entry.name, total=total, global_loads=dict(sorted(loads.items())), global_stores=dict(sorted(stores.items())),
        fma=kinds["fma"], mma=kinds["mma"], barriers=kinds["barrier"], atomics=kinds["atomic"],
        async_copies=kinds["async"], approximate=kinds["approximate"], branches=kinds["branch"], double=kinds["double"],
        narrowing=kinds["narrowing"], local=kinds["local"], shared=kinds["shared"],
        low_precision=tuple(LowPrecision(instruction=o, count=c, line=lines.get(o)) for o, c in low.most_common(8)),
    )  # fmt: skip


def _width(parts: list[str]) -> int:
    """Return the bytes of one access."""
    lanes = next((int(p[1:]) for p in parts if p in {"v2", "v4", "v8"}), 1)
    bits = next((int(m.group(1)) for p in reversed(parts) if (m := _BITS.match(p))), 0)
    return lanes * bits // 8


def _kinds(parts: list[str]) -> list[str]:
    base = parts[0]
    found = []
    if base in {"fma", "mad"} and parts[-1] in {"f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"}:
        found.append("fma")
    if _is_product(parts):
        found.append("mma")
    if base in {"bar", "barrier", "mbarrier"}:
        found.append("barrier")
    if base in {"atom", "red"}:
        found.append("atomic")
    if parts[:2] == ["cp", "async"]:
        found.append("async")
    if base == "bra":
        found.append("branch")
    if "approx" in parts:
        found.append("approximate")
    if _shortens(parts):
        found.append("narrowing")
    if parts[-1] == "f64" and base in _ROUNDING:
        found.append("double")
    if base in {"ld", "st"} and len(parts) > 1 and parts[1] in {"local", "shared"}:
        found.append(parts[1])
    return found


def _is_product(parts: list[str]) -> bool:
    return parts[0] == "mma" or (parts[0] in _TENSOR and any(p.startswith("mma") for p in parts[1:]))


def _narrows(parts: list[str]) -> bool:
    """Return whether an instruction rounds a result or an operand to fewer bits than float32 has.

    Fast sines, cosines and tangents do for all but small arguments; the accurate functions are made without them.
    """
    if parts[0] in {"sin", "cos", "tanh"} and "approx" in parts:
        return True
    if parts[0] in _TENSOR and not _is_product(parts):  # loads, stores and fences of tensor cores
        return False
    if parts[:2] == ["wmma", "mma"]:  # its half form names the types of the sums only
        return len([p for p in parts if _TYPE.match(p)]) == 2 or not NARROW.isdisjoint(parts)
    return parts[0] in _ROUNDING and not NARROW.isdisjoint(parts[1:])


def _shortens(parts: list[str]) -> bool:
    """Return whether an instruction converts float32 or float64 to fewer bits."""
    return parts[0] == "cvt" and parts[-1] in {"f32", "f64"} and parts[-2] in NARROW
