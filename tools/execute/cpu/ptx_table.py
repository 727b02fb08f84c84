"""The table of PTX instructions that the CPU executor knows, each as C++ over `include/sim_ptx.h`.

Source of the meanings: NVIDIA, Parallel Thread Execution ISA.
"""

from collections.abc import Callable
from dataclasses import dataclass

_P = "::sim_ptx::"

TYPES = {
    "b8": "unsigned char", "u8": "unsigned char", "s8": "signed char",
    "b16": "unsigned short", "u16": "unsigned short", "s16": "short", "f16": "unsigned short", "bf16": "unsigned short",
    "b32": "unsigned", "u32": "unsigned", "s32": "int", "f32": "float", "f16x2": "unsigned", "bf16x2": "unsigned",
    "b64": "unsigned long long", "u64": "unsigned long long", "s64": "long long", "f64": "double",
}  # fmt: skip
"""C++ type of a PTX type; 16-bit floats are their bits."""

_LANE = "::sim_here.lane"
SPECIAL_REGISTERS = {
    "%laneid": _LANE, "%warpid": "::sim_here.warp", "%smid": "0u", "%nsmid": "1u", "%gridid": "0u",
    "%nwarpid": "((blockDim.x * blockDim.y * blockDim.z + 31u) / 32u)",
    "%lanemask_eq": f"(1u << {_LANE})", "%lanemask_lt": f"((1u << {_LANE}) - 1u)", "%lanemask_le": f"((2u << {_LANE}) - 1u)",
    "%lanemask_gt": f"(~((2u << {_LANE}) - 1u))", "%lanemask_ge": f"(~((1u << {_LANE}) - 1u))",
    "%clock": "((unsigned)sim_clock())", "%clock64": "((unsigned long long)sim_clock())",
    "%globaltimer": "((unsigned long long)sim_clock())", "%globaltimer_lo": "((unsigned)sim_clock())",
    **{f"%{r}.{a}": f"{v}.{a}" for r, v in (("tid", "threadIdx"), ("ntid", "blockDim"), ("ctaid", "blockIdx"), ("nctaid", "gridDim")) for a in "xyz"},
}  # fmt: skip

_ROUNDING = {
    "rn": "nearest",
    "rz": "zero",
    "rm": "down",
    "rp": "up",
    "rni": "nearest",
    "rzi": "zero",
    "rmi": "down",
    "rpi": "up",
}
_SUFFIX = {"rn": "rn", "rz": "rz", "rm": "rd", "rp": "ru"}
_IGNORED_HINTS = frozenset({
    "global", "shared", "local", "const", "param", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "weak", "relaxed", "acquire",
    "release", "acq_rel", "cta", "gpu", "sys", "cluster", "volatile", "shared::cta", "L1::no_allocate", "L1::evict_last",
    "L1::evict_first", "L1::evict_normal", "L1::evict_unchanged", "L2::64B", "L2::128B", "L2::256B", "L2::evict_last",
    "L2::evict_first", "L2::evict_normal", "mmio",
})  # fmt: skip
_NOTHING = "((void)0);"


@dataclass(frozen=True)
class Instruction:
    """An opcode split at its dots, and its operands as C++ (addresses `[base|offset]`, vectors `{a|b}`)."""

    words: tuple[str, ...]
    operands: tuple[str, ...]

    @property
    def name(self) -> str:
        """Opcode without modifiers."""
        return self.words[0]

    @property
    def type(self) -> str | None:
        """The last modifier that names a type."""
        return next((word for word in reversed(self.words) if word in TYPES), None)

    def has(self, *words: str) -> bool:
        """Say whether any of the modifiers stands."""
        return any(word in self.words for word in words)


Handler = Callable[[Instruction], str | None]


def instruction_text(instruction: Instruction) -> str | None:
    """Return the C++ statement of one instruction, `None` when the table does not know it."""
    handler = _HANDLERS.get(instruction.name)
    try:
        return handler(instruction) if handler else None
    except (IndexError, KeyError):
        return None


def _as(ptype: str, operand: str) -> str:
    ctype = TYPES[ptype]
    if (
        operand.endswith("ll")
        and operand.rstrip("l").lstrip("-").isalnum()
        and operand.lstrip("-")[0].isdigit()
    ):
        return f"(({ctype}){operand})"
    return f"{_P}as<{ctype}>({operand})"


def _set(destination: str, value: str) -> str | None:
    if destination.startswith(("[", "{", "<")):
        return None
    return _NOTHING if destination == "_" else f"{_P}set({destination}, {value});"


def _cast(ptype: str, value: str) -> str:
    return f"(({TYPES[ptype]})({value}))"


def _arithmetic(template: str, *, types: str = "integer") -> Handler:
    def handle(i: Instruction) -> str | None:
        ptype = i.type
        if (
            ptype is None
            or (types == "integer" and ptype[0] == "f")
            or ptype in {"f16", "bf16", "f16x2", "bf16x2"}
        ):
            return None
        values = {name: _as(ptype, operand) for name, operand in zip("abc", i.operands[1:], strict=False)}
        return _set(i.operands[0], _cast(ptype, template.format(T=TYPES[ptype], P=_P, **values)))

    return handle


def _pair(name: str) -> Handler:
    def handle(i: Instruction) -> str | None:
        a, b = _as("b32", i.operands[1]), _as("b32", i.operands[2])
        c = _as("b32", i.operands[3]) if len(i.operands) > 3 else "0u"
        kind = "half" if i.type == "f16x2" else "bfloat"
        return _set(i.operands[0], f"{_P}{kind}_pair({a}, {b}, {c}, {_P}{name}_lanes())")

    return handle


def _float_or_integer(symbol: str, single: str, double: str, lanes: str) -> Handler:
    integer = _arithmetic(f"{{a}} {symbol} {{b}}")

    def handle(i: Instruction) -> str | None:
        if i.type in {"f16x2", "bf16x2"}:
            return _pair(lanes)(i)
        if i.has("cc") or i.name in {"addc", "subc"}:
            return _carry(i)
        if i.type in {"f32", "f64"}:
            suffix = next((_SUFFIX[w] for w in i.words if w in _SUFFIX), "rn")
            value = f"{single if i.type == 'f32' else double}_{suffix}({_as(i.type, i.operands[1])}, {_as(i.type, i.operands[2])})"
            return _set(i.operands[0], f"__saturatef({value})" if i.has("sat") else value)
        return None if i.has("sat") else integer(i)

    return handle


def _carry(i: Instruction) -> str | None:
    ptype = {"s32": "u32", "s64": "u64"}.get(i.type or "", i.type)
    if ptype not in {"u32", "u64", "b32", "b64"}:
        return None
    carried = "sim_carry" if i.name in {"addc", "subc"} else "0u"
    out = "sim_carry" if i.has("cc") else "sim_ignored"
    function = "add_carry" if i.name in {"add", "addc"} else f"sub_borrow<{TYPES[ptype]}>"
    a, b = (_as(ptype, operand) for operand in i.operands[1:3])
    if ptype == "u64" and function == "add_carry":
        a, b = f"(::std::uint64_t){a}", f"(::std::uint64_t){b}"
    return f"{{ unsigned sim_ignored = 0; {_set(i.operands[0], f'{_P}{function}({a}, {b}, {carried}, {out})')} (void)sim_ignored; }}"


def _multiply(i: Instruction) -> str | None:
    if i.type in {"f32", "f64", "f16x2", "bf16x2"}:
        return _float_or_integer("*", "__fmul", "__dmul", "mul")(i)
    ptype = i.type
    if ptype is None or i.has("cc", "sat"):
        return None
    return _set(i.operands[0], _product(i, ptype))


def _product(i: Instruction, ptype: str) -> str:
    a, b = _as(ptype, i.operands[1]), _as(ptype, i.operands[2])
    if i.has("wide"):
        wide = TYPES[{"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}[ptype]]
        return f"(({wide}){a} * ({wide}){b})"
    if i.has("hi"):
        return f"{_P}mul_hi<{TYPES[ptype]}>({a}, {b})"
    return _cast(ptype, f"{a} * {b}")


def _multiply_add(i: Instruction) -> str | None:
    ptype = i.type
    if ptype in {"f16x2", "bf16x2"}:
        return None if i.has("relu", "sat") else _pair("fma")(i)
    if ptype in {"f32", "f64"}:
        suffix = next((_SUFFIX[w] for w in i.words if w in _SUFFIX), "rn")
        values = ", ".join(_as(ptype, operand) for operand in i.operands[1:4])
        value = f"{'__fmaf' if ptype == 'f32' else '__fma'}_{suffix}({values})"
        return _set(i.operands[0], f"__saturatef({value})" if i.has("sat") else value)
    if ptype is None or i.name == "fma" or i.has("cc", "sat"):
        return None
    addend = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}[ptype] if i.has("wide") else ptype
    return _set(i.operands[0], _cast(addend, f"{_product(i, ptype)} + {_as(addend, i.operands[3])}"))


def _min_max(name: str) -> Handler:
    function = "smaller" if name == "min" else "larger"

    def handle(i: Instruction) -> str | None:
        if i.type in {"f16x2", "bf16x2"}:
            return _pair(name)(i)
        if i.has("NaN", "xorsign", "relu"):
            return None
        return _arithmetic(f"{{P}}{function}<{{T}}>({{a}}, {{b}})", types="any")(i)

    return handle


def _unary_float(template: str) -> Handler:
    def handle(i: Instruction) -> str | None:
        if i.type != "f32":
            return None
        return _set(i.operands[0], template.format(a=_as("f32", i.operands[1])))

    return handle


def _root(single: str, double: str) -> Handler:
    def handle(i: Instruction) -> str | None:
        if i.type not in {"f32", "f64"}:
            return None
        return _set(i.operands[0], (single if i.type == "f32" else double).format(_as(i.type, i.operands[1])))

    return handle


def _divide(i: Instruction) -> str | None:
    if i.type == "f32":
        return _set(i.operands[0], f"{_as('f32', i.operands[1])} / {_as('f32', i.operands[2])}")
    if i.type == "f64":
        return _set(i.operands[0], f"{_as('f64', i.operands[1])} / {_as('f64', i.operands[2])}")
    return _arithmetic("{P}quotient<{T}>({a}, {b})")(i)


def _move(i: Instruction) -> str | None:
    destination, source = i.operands
    ptype = i.words[-1]
    if ptype == "pred":
        return f"{destination} = {source};"
    if source.startswith("{"):
        parts = source[1:-1].split("|")
        part = {("b64", 2): "b32", ("b32", 2): "b16", ("b64", 4): "b16"}[ptype, len(parts)]
        bits = {"b32": 32, "b16": 16}[part]
        joined = " | ".join(f"(({TYPES[ptype]}){_as(part, p)} << {n * bits})" for n, p in enumerate(parts))
        return _set(destination, f"({TYPES[ptype]})({joined})")
    if destination.startswith("{"):
        parts = destination[1:-1].split("|")
        part = {("b64", 2): "b32", ("b32", 2): "b16", ("b64", 4): "b16"}[ptype, len(parts)]
        bits = {"b32": 32, "b16": 16}[part]
        value = _as(ptype, source)
        taken = " ".join(_set(p, f"({TYPES[part]})(sim_w >> {n * bits})") or "" for n, p in enumerate(parts))
        return f"{{ const auto sim_w = {value}; {taken} }}"
    return _set(destination, _as(ptype, source)) if ptype in TYPES else None


def _cvta(i: Instruction) -> str | None:
    destination, source = i.operands
    if not i.has("shared"):
        return _set(destination, _as("u64", source)) if i.has("global", "local", "const") else None
    if i.has("to"):
        return _set(destination, f"(unsigned long long){_P}shared_offset({_P}generic_pointer({source}))")
    return _set(destination, f"(unsigned long long){_P}shared_pointer({source})")


def _address(i: Instruction, operand: str) -> str:
    base, offset = operand[1:-1].split("|")
    return f"{_P}{'shared' if i.has('shared', 'shared::cta') else 'generic'}_pointer({base}, {offset})"


def _plain_access(i: Instruction) -> bool:
    return all(word in _IGNORED_HINTS or word in TYPES or word in {"v2", "v4"} for word in i.words[1:])


def _load(i: Instruction) -> str | None:
    ptype = i.type
    if ptype is None or not _plain_access(i) or not i.operands[1].startswith("["):
        return None
    ctype, at = TYPES[ptype], _address(i, i.operands[1])
    if i.has("v2", "v4"):
        parts = i.operands[0][1:-1].split("|")
        taken = " ".join(_set(part, f"sim_v[{n}]") or "" for n, part in enumerate(parts))
        return f"{{ const {ctype}* const sim_v = {_P}vector_at<{ctype}, {len(parts)}>({at}, __LINE__); {taken} }}"
    fence = " __threadfence();" if i.has("acquire") else ""
    kind = "load_volatile" if i.has("volatile", "relaxed", "acquire") else "load"
    return f"{_set(i.operands[0], f'{_P}{kind}<{ctype}>({at})')}{fence}"


def _store(i: Instruction) -> str | None:
    ptype = i.type
    if ptype is None or not _plain_access(i) or not i.operands[0].startswith("["):
        return None
    ctype, at = TYPES[ptype], _address(i, i.operands[0])
    if i.has("v2", "v4"):
        parts = i.operands[1][1:-1].split("|")
        put = " ".join(f"sim_v[{n}] = {_as(ptype, part)};" for n, part in enumerate(parts))
        return f"{{ {ctype}* const sim_v = const_cast<{ctype}*>({_P}vector_at<{ctype}, {len(parts)}>({at}, __LINE__)); {put} }}"
    fence = "__threadfence(); " if i.has("release") else ""
    kind = "store_volatile" if i.has("volatile", "relaxed", "release") else "store"
    return f"{fence}{_P}{kind}<{ctype}>({at}, {_as(ptype, i.operands[1])});"


_ATOMICS = {"add": "atomicAdd", "min": "atomicMin", "max": "atomicMax", "and": "atomicAnd", "or": "atomicOr",
            "xor": "atomicXor", "inc": "atomicInc", "dec": "atomicDec", "exch": "atomicExch", "cas": "atomicCAS"}  # fmt: skip


def _atomic(i: Instruction) -> str | None:
    operands = i.operands if i.name == "atom" else ("_", *i.operands)
    operation = next((word for word in i.words if word in _ATOMICS), None)
    extra = [w for w in i.words[1:] if w not in _IGNORED_HINTS and w not in TYPES and w not in _ATOMICS]
    if operation is None or extra or i.type not in {"u32", "s32", "b32", "u64", "s64", "b64", "f32", "f64"}:
        return None
    ctype = TYPES[i.type]
    if ctype == "long long" and operation not in {"min", "max"}:
        ctype = "unsigned long long"
    values = ", ".join(f"({ctype}){_as(i.type, operand)}" for operand in operands[2:])
    call = f"{_ATOMICS[operation]}(static_cast<{ctype}*>({_address(i, operands[1])}), {values})"
    before = "__threadfence(); " if i.has("release", "acq_rel") else ""
    after = " __threadfence();" if i.has("acquire", "acq_rel") else ""
    done = f"{call};" if operands[0] == "_" else _set(operands[0], call)
    return f"{before}{done}{after}"


_COMPARE = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}


def _setp(i: Instruction) -> str | None:
    ptype = i.type
    sign = _COMPARE.get(i.words[1])
    if ptype is None or sign is None or len(i.operands) != 3:
        return None
    test = f"({_as(ptype, i.operands[1])} {sign} {_as(ptype, i.operands[2])})"
    destination = i.operands[0]
    if destination.startswith("<"):
        first, second = destination[1:-1].split("|")
        return f"{first} = {test}; {second} = !{first};"
    return f"{destination} = {test};"


def _select(i: Instruction) -> str | None:
    ptype = i.type
    if ptype is None:
        return None
    return _set(
        i.operands[0], f"({i.operands[3]} ? {_as(ptype, i.operands[1])} : {_as(ptype, i.operands[2])})"
    )


def _logic(symbol: str) -> Handler:
    plain = _arithmetic(f"{{a}} {symbol} {{b}}")

    def handle(i: Instruction) -> str | None:
        if i.words[-1] == "pred":
            return f"{i.operands[0]} = ({i.operands[1]} {symbol} {i.operands[2]});"
        return plain(i)

    return handle


def _invert(i: Instruction) -> str | None:
    if i.words[-1] == "pred":
        return f"{i.operands[0]} = !{i.operands[1]};"
    return _arithmetic("~{a}")(i)


def _bits(template: str) -> Handler:
    """Instructions on typed value a and 32-bit operands b, c, d."""

    def handle(i: Instruction) -> str | None:
        ptype = i.type
        if ptype is None:
            return None
        names = {n: _as("u32", o) for n, o in zip("bcd", i.operands[2:], strict=False)}
        typed = {
            "A": _as(ptype, i.operands[1]),
            "B": _as(ptype, i.operands[2]) if len(i.operands) > 2 else "",
        }
        return _set(i.operands[0], template.format(T=TYPES[ptype], P=_P, **names, **typed))

    return handle


def _convert(i: Instruction) -> str | None:
    types = [word for word in i.words if word in TYPES or word == "tf32"]
    if len(types) != 2 or i.has("relu", "satfinite"):
        return _convert_pair(i, types)
    to, source = types
    if to == "tf32":
        return _set(i.operands[0], f"{_P}tf32({_as('f32', i.operands[1])})") if i.has("rna") else None
    if to in {"f16x2", "bf16x2"}:
        return _convert_pair(i, types)
    value = _as(source, i.operands[1])
    widen = {"f16": "::simh::float_from_half({})", "bf16": "::simh::float_from_bfloat({})"}.get(source)
    if widen:
        value = widen.format(value)
    floating = source[0] == "f" or source == "bf16"
    mode = next(
        (f"::simh::round::{_ROUNDING[w]}" for w in i.words if w in _ROUNDING), "::simh::round::nearest"
    )
    return _converted(i, to, value, mode=mode, floating=floating, wide=source == "f64")


def _converted(i: Instruction, to: str, value: str, *, mode: str, floating: bool, wide: bool) -> str | None:
    if to in {"f16", "bf16"}:
        name = "half" if to == "f16" else "bfloat"
        number = value if floating else f"::simh::double_to_odd({value})"
        return _set(i.operands[0], f"::simh::{name}_from_double({number}, {mode})")
    if to in {"f32", "f64"}:
        if not floating:
            name = "float" if to == "f32" else "double"
            return _set(i.operands[0], f"::simh::{name}_from_integer({value}, {mode})")
        if any(word in {"rni", "rzi", "rmi", "rpi"} for word in i.words):
            value = f"::simh::round_to_integer({value}, {mode})"
        result = f"::simh::narrow({value}, {mode})" if to == "f32" and wide else f"(({TYPES[to]})({value}))"
        return _set(i.operands[0], f"__saturatef({result})" if i.has("sat") else result)
    if floating:
        nan = (
            f"({TYPES[to]})(1ull << {63 if '64' in to else 31})" if wide or "64" in to else f"({TYPES[to]})0"
        )
        return _set(i.operands[0], f"::simh::to_integer<{TYPES[to]}>({value}, {mode}, {nan})")
    return _set(
        i.operands[0], f"{_P}convert_integer<{TYPES[to]}>({value}, {'true' if i.has('sat') else 'false'})"
    )


def _convert_pair(i: Instruction, types: list[str]) -> str | None:
    """Two floats into one word; the first source becomes the upper half."""
    if (
        types not in (["f16x2", "f32"], ["bf16x2", "f32"])
        or not i.has("rn", "rz")
        or i.has("relu", "satfinite")
    ):
        return None
    name = "half" if types[0] == "f16x2" else "bfloat"
    mode = "nearest" if i.has("rn") else "zero"
    high, low = (
        f"(unsigned)::simh::{name}_from_double({_as('f32', o)}, ::simh::round::{mode})"
        for o in i.operands[1:3]
    )
    return _set(i.operands[0], f"({low} | ({high} << 16))")


def _copy_async(i: Instruction) -> str | None:
    if i.has("commit_group"):
        return "sim_copy_commit();"
    if i.has("wait_all"):
        return "::simc::wait_copies(0, true);"
    if i.has("wait_group"):
        return f"::simc::wait_copies({_as('u32', i.operands[0])});"
    if not i.has("ca", "cg") or i.has("bulk", "mbarrier", "cache_hint") or len(i.operands) not in {3, 4}:
        return None
    destination, source, size = i.operands[:3]
    read = i.operands[3] if len(i.operands) == 4 else size
    at, start = (operand[1:-1].split("|") for operand in (destination, source))
    to = f"{_P}shared_pointer({at[0]}, {at[1]})"
    return f"{_P}copy({to}, {_P}generic_pointer({start[0]}, {start[1]}), {_as('u32', size)}, {_as('u32', read)}, __LINE__);"


def _barrier(i: Instruction) -> str | None:
    if i.has("warp"):
        return f"__syncwarp({_as('u32', i.operands[0])});"
    if i.has("red") or not i.has("sync"):
        return None
    if len(i.operands) == 1 and i.operands[0] == "0ll":
        return "__syncthreads();"
    if len(i.operands) == 2:
        return f"sim_named_barrier((int){_as('u32', i.operands[0])}, (int){_as('u32', i.operands[1])}, __LINE__);"
    return f"sim_named_barrier((int){_as('u32', i.operands[0])}, (int)(blockDim.x * blockDim.y * blockDim.z), __LINE__);"


def _fence(i: Instruction) -> str | None:
    if i.has("proxy", "mbarrier_init"):
        return None
    return "__threadfence_block();" if i.has("cta") else "__threadfence();"


def _shuffle(i: Instruction) -> str | None:
    mode = {"up": 0, "down": 1, "bfly": 2, "idx": 3}.get(i.words[2] if i.words[1] == "sync" else "")
    if mode is None or len(i.operands) != 5:
        return None
    destination = i.operands[0]
    target, predicate = (
        destination[1:-1].split("|") if destination.startswith("<") else (destination, "sim_p")
    )
    a, b, c, mask = (_as("b32", operand) for operand in i.operands[1:])
    own = "bool sim_p = false; " if predicate == "sim_p" else ""
    return f"{{ {own}{_set(target, f'{_P}shuffle({mode}, {a}, {b}, {c}, {mask}, {predicate}, __LINE__)')} }}"


def _vote(i: Instruction) -> str | None:
    if i.words[1] != "sync":
        return None
    destination, predicate, mask = i.operands
    names = {"any": "__any_sync", "all": "__all_sync", "uni": "__uni_sync", "ballot": "__ballot_sync"}
    value = f"{names[i.words[2]]}({_as('u32', mask)}, {predicate})"
    return _set(destination, value) if i.words[2] == "ballot" else f"{destination} = {value} != 0;"


def _match(i: Instruction) -> str | None:
    if i.words[1] != "any" or i.type is None:
        return None
    return _set(i.operands[0], f"__match_any_sync({_as('u32', i.operands[2])}, {_as(i.type, i.operands[1])})")


def _reduce(i: Instruction) -> str | None:
    ptype = i.type
    if ptype not in {"u32", "s32", "b32"} or i.words[1] != "sync":
        return None
    value = f"__reduce_{i.words[2]}_sync({_as('u32', i.operands[2])}, {_as(ptype, i.operands[1])})"
    return _set(i.operands[0], value) if i.words[2] in {"add", "min", "max", "and", "or", "xor"} else None


def _shift(i: Instruction) -> str | None:
    if len(i.words) < 3 or i.words[2] not in {"wrap", "clamp"}:
        return None
    function = f"__funnelshift_{i.words[1]}{'c' if i.words[2] == 'clamp' else ''}"
    return _set(i.operands[0], f"{function}({', '.join(_as('u32', o) for o in i.operands[1:4])})")


def _constant(text: str) -> Handler:
    return lambda _i: text


_HANDLERS: dict[str, Handler] = {
    "mov": _move, "cvta": _cvta, "ld": _load, "ldu": _load, "st": _store, "atom": _atomic, "red": _atomic, "cvt": _convert,
    "add": _float_or_integer("+", "__fadd", "__dadd", "add"), "sub": _float_or_integer("-", "__fsub", "__dsub", "sub"),
    "addc": _carry, "subc": _carry, "mul": _multiply, "mad": _multiply_add, "fma": _multiply_add, "div": _divide,
    "rem": _arithmetic("{P}remainder<{T}>({a}, {b})"), "min": _min_max("min"), "max": _min_max("max"),
    "neg": _arithmetic("-{a}", types="any"), "abs": _arithmetic("({a} < 0 ? -{a} : {a})", types="any"),
    "and": _logic("&"), "or": _logic("|"), "xor": _logic("^"), "not": _invert, "cnot": _arithmetic("{a} == 0"),
    "shl": _bits("{P}shift_left<{T}>({A}, {b})"), "shr": _bits("{P}shift_right<{T}>({A}, {b})"), "shf": _shift,
    "bfe": _bits("{P}bfe<{T}>({A}, {b}, {c})"), "bfi": _bits("{P}bfi<{T}>({A}, {B}, {c}, {d})"),
    "bfind": _bits("{P}bfind<{T}>({A})"), "lop3": _bits("{P}lop3<unsigned>({A}, {B}, {c}, {d})"),
    "prmt": _bits("__byte_perm({A}, {b}, {c})"), "sad": _arithmetic("({a} > {b} ? {a} - {b} : {b} - {a}) + {c}"),
    "brev": lambda i: _bits("__brevll({A})" if i.type == "b64" else "__brev({A})")(i),
    "clz": lambda i: _bits("__clzll((long long){A})" if i.type == "b64" else "__clz((int){A})")(i),
    "popc": lambda i: _bits("__popcll({A})" if i.type == "b64" else "__popc({A})")(i),
    "setp": _setp, "selp": _select, "cp": _copy_async, "bar": _barrier, "barrier": _barrier,
    "membar": _fence, "fence": _fence, "shfl": _shuffle, "vote": _vote, "match": _match, "redux": _reduce,
    "activemask": lambda i: _set(i.operands[0], "__activemask()"),
    "dp4a": lambda i: _set(i.operands[0], f"__dp4a({', '.join(_as(i.words[-1], o) for o in i.operands[1:4])})") if i.words[-1] == i.words[-2] else None,
    "ex2": _unary_float("::exp2f({a})"), "lg2": _unary_float("::log2f({a})"), "sin": _unary_float("::sinf({a})"),
    "cos": _unary_float("::cosf({a})"), "tanh": _unary_float("::tanhf({a})"),
    "rcp": _root("1.0f / {0}", "1.0 / {0}"), "rsqrt": _root("(float)(1.0 / ::sqrt((double){0}))", "1.0 / ::sqrt({0})"),
    "sqrt": _root("::sqrtf({0})", "::sqrt({0})"),
    "prefetch": _constant(_NOTHING), "prefetchu": _constant(_NOTHING), "discard": _constant(_NOTHING), "pragma": _constant(_NOTHING),
    "nanosleep": _constant("__nanosleep(0);"), "trap": _constant("__trap();"), "brkpt": _constant(_NOTHING),
    "griddepcontrol": _constant(_NOTHING), "setmaxnreg": _constant(_NOTHING),
}  # fmt: skip
"""Instruction name to the function that writes its C++."""


def opcodes() -> list[str]:
    """Return the instructions of the table by name, sorted."""
    return sorted(_HANDLERS)
