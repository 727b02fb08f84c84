"""What a compiled kernel asks of the outside: read from the ELF file, so that nothing foreign is ever mapped first."""

import struct
from pathlib import Path

_MATH = {
    name + suffix
    for suffix in ("", "f")
    for name in [
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "ceil",
        "copysign",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "exp10",
        "expm1",
        "fabs",
        "fdim",
        "floor",
        "fma",
        "fmax",
        "fmin",
        "fmod",
        "frexp",
        "hypot",
        "ilogb",
        "j0",
        "j1",
        "jn",
        "ldexp",
        "lgamma",
        "llrint",
        "llround",
        "log",
        "log10",
        "log1p",
        "log2",
        "logb",
        "lrint",
        "lround",
        "modf",
        "nearbyint",
        "nextafter",
        "pow",
        "remainder",
        "remquo",
        "rint",
        "round",
        "scalbn",
        "scalbln",
        "sin",
        "sincos",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "tgamma",
        "trunc",
        "y0",
        "y1",
        "yn",
    ]
}
_MATH |= {f"__{n}_finite" for n in _MATH} | {"__signgam", "signgam"}
_RUNTIME = {
    "memcpy", "memset", "memmove", "memcmp", "strlen", "__cxa_guard_acquire", "__cxa_guard_release", "__cxa_finalize",
    "__tls_get_addr", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__gmon_start__", "__cxa_pure_virtual",
    "__stack_chk_fail", "__cxa_guard_abort", "__dso_handle",
}  # fmt: skip
DEVICE_HEAP = {
    "malloc": "malloc", "free": "free", "_Znwm": "new", "_Znam": "new[]", "_ZdlPv": "delete", "_ZdaPv": "delete[]",
    "_ZdlPvm": "delete", "_ZdaPvm": "delete[]", "__cxa_throw_bad_array_new_length": "new[]",
}  # fmt: skip
"""Functions of a heap that device code may call too: nothing foreign, but not there on this executor."""
_PREFIXES = ("sim_", "__tsan_", "__ubsan_handle_", "__gcov_", "__sanitizer_cov_trace_pc")
_COMPILER_RUNTIME = ("__extendhf", "__trunc", "__float", "__fix", "__mul", "__div", "__pow", "__udiv", "__umod", "__mod", "__popcount", "__clz", "__ctz", "__add", "__sub", "__neg", "__eq", "__lt", "__le", "__gt", "__ge", "__ne", "__unord", "__extend")  # fmt: skip


def foreign_symbols(library: Path, *, own_constructors: int) -> list[str]:
    """Return undefined functions that are not the executor's, the math library's or the compiler's own.

    A constructor of the kernel's own (`.init_array`, `.ctors`) is reported as `(constructor)`: device globals are
    constant-initialised, so none is needed. Check mode's instrumentation brings `own_constructors` of its own.
    """
    data = library.read_bytes()
    undefined, constructors = _read(data)
    found = sorted(name for name in undefined if not _is_ours(name))
    return (["(constructor)"] if constructors > own_constructors else []) + found


def _is_ours(name: str) -> bool:
    if name in _MATH or name in _RUNTIME or name.startswith(_PREFIXES):
        return True
    return name.startswith(_COMPILER_RUNTIME) and name.rstrip("0123456789").endswith(
        ("f", "i", "c", "2", "hf", "sf", "df", "xf", "tf", "si", "di", "ti")
    )


def _read(data: bytes) -> tuple[set[str], int]:
    """Return undefined dynamic symbols, and how many constructors the file holds."""
    if data[:6] != b"\x7fELF\x02\x01":
        return {"(not an ELF file)"}, 0
    offset = struct.unpack_from("<Q", data, 40)[0]
    size, count, names_index = struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    names = sections[names_index][4]

    def text(start: int) -> str:
        return data[start : data.index(b"\0", start)].decode("ascii", "replace")

    undefined: set[str] = set()
    constructors = 0
    for name, kind, _, _, at, length, link, _, _, entry in sections:
        title = text(names + name)
        if title in {".init_array", ".ctors", ".preinit_array"}:
            constructors += length // 8
        elif title == ".init" and length:
            constructors += 1
        if kind == 4 and any(
            struct.unpack_from("<Q", data, at + i * entry + 8)[0] & 0xFFFFFFFF == 37
            for i in range(length // entry)
        ):  # SHT_RELA with R_X86_64_IRELATIVE
            undefined.add("(ifunc)")
        if kind not in {2, 11}:  # SHT_SYMTAB, SHT_DYNSYM
            continue
        strings = sections[link][4]
        for i in range(1, length // entry):
            symbol, info, _, section, _, _ = struct.unpack_from("<IBBHQQ", data, at + i * entry)
            if info & 15 == 1 and 0 < section < count and sections[section][2] & 4:
                undefined.add("(data in the text section)")
            if info & 15 == 10:  # STT_GNU_IFUNC: a resolver is code that runs at load
                undefined.add("(ifunc)")
            if section == 0 and symbol and kind == 11:
                undefined.add(text(strings + symbol).split("@")[0])
    return undefined, constructors
