"""Preprocessor lines of a kernel's text, read once for all: what is refused, which headers are needed.

Directives are scanned after comments are removed and lines are spliced, as a preprocessor would see them, so
that nothing hides.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cuda_harness.tools.toolchain.macros import expanded_words

MAX_WORDS = 1 << 20
"""Words that macros may make of a source; a compiler takes minutes over more."""

HARMLESS = frozenset({
    "assert.h", "cassert", "cfloat", "climits", "cmath", "cstdint", "cstddef", "cstdio", "cstdlib", "cstring",
    "float.h", "inttypes.h", "limits", "limits.h", "math.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h",
    "algorithm", "type_traits", "utility", "cuda.h", "cuda_runtime.h", "cuda_runtime_api.h",
    "device_launch_parameters.h", "device_functions.h", "vector_types.h", "vector_functions.h", "math_constants.h",
    "builtin_types.h", "crt/math_functions.h", "sm_20_intrinsics.h", "device_atomic_functions.h",
})  # fmt: skip
"""Headers whose content the fixed prelude gives; the line is blanked."""
DEVICE = frozenset({
    "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "mma.h", "cooperative_groups.h", "cooperative_groups/reduce.h",
    "cooperative_groups/scan.h", "cooperative_groups/memcpy_async.h", "cuda_pipeline.h", "cuda_pipeline_primitives.h",
    "cuda/barrier", "cuda/pipeline", "cuda/atomic", "cuda/annotated_ptr", "cuda/ptx", "cuda/functional",
    "cuda_awbarrier.h", "cuda_awbarrier_primitives.h", "curand_kernel.h",
})  # fmt: skip
"""Headers of the toolkit's device set."""
_DEVICE_PREFIXES = ("cub/", "cuda/std/")
ALLOWED_CONDITIONS = frozenset({"__CUDA_ARCH__", "__cplusplus"})
"""Predefined macros that a conditional may test: both executors define them alike."""

_DIRECTIVE = re.compile(r"[ \t]*(?:#|%:|\?\?=)[ \t]*([A-Za-z_]\w*|)[ \t]*(.*)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_FORBIDDEN_DIRECTIVES = {
    "include_next": "#include_next",
    "line": "#line",
    "import": "#import",
    "embed": "#embed",
    "ident": "#ident",
}


@dataclass(frozen=True)
class Include:
    """One #include as written; `name` is `None` when it is computed by a macro."""

    name: str | None
    angled: bool
    line: int


@dataclass(frozen=True)
class Remark:
    """Something at a line."""

    line: int
    text: str


@dataclass(frozen=True)
class IncludeResolution:
    """The source with harmless includes blanked, line for line and as read here, and the device headers it needs."""

    source: str
    headers: tuple[str, ...]
    violations: tuple[Remark, ...]


def blank_comments(source: str) -> str:
    """Return the text with comments as spaces; strings, raw strings, characters and lines keep their place."""
    out: list[str] = []
    pattern = re.compile(
        r"(?<![\w.])\.?\d(?:[eEpP][+-]|'?[\w.])*|//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)|R\"([^()\\\s]{0,16})\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?",
        re.DOTALL,
    )
    position = 0
    for match in pattern.finditer(source):
        text = match.group()
        if text.startswith(("//", "/*")):
            out.append(source[position : match.start()])
            out.append(re.sub(r"[^\n]", " ", text))
            position = match.end()
    out.append(source[position:])
    return "".join(out)


def as_read(source: str) -> str:
    """Return the text that both the scan and the compilers see: lines spliced, comments and odd blanks as spaces.

    One reading for all: no second opinion on where a comment, a splice or a trigraph ends can hide a directive.
    Line numbers stay; idempotent up to what a compiler would read alike.
    """
    text = re.sub(r"\r\n", "\n", source).replace("\ufeff", " ")
    text = re.sub(
        r"[\x00-\x08\x0b-\x1f]", " ", text
    )  # form feeds and lone returns are blanks to some compilers
    text = re.sub(r"\?\?(?=[=/'()!<>-])", "? ?", text)  # C++17 has no trigraphs; no compiler may see one
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        first = index
        while lines[first].rstrip().endswith("\\"):
            joined = lines[first].rstrip()[:-1]
            index += 1
            if index == len(lines):
                lines[first] = joined.rstrip("\\ \t")
                break
            lines[first], lines[index] = joined + lines[index], ""
        index += 1
    return blank_comments("\n".join(lines))


def directives(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and rest of each preprocessor directive, comments removed and lines spliced."""
    yield from _directives(as_read(source))


def _directives(text: str) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        found = _DIRECTIVE.match(line)
        if found:
            yield number, found.group(1), found.group(2).strip()


def directive_facts(text: str) -> tuple[list[Include], list[Remark]]:
    """Return includes and refusals of a text that `as_read` gave."""
    includes: list[Include] = []
    refused: list[Remark] = []
    for line, name, rest in _directives(text):
        if name == "include":
            header = re.match(r'<([^>\n]+)>|"([^"\n]+)"', rest)
            target = (header.group(1) or header.group(2)).strip() if header else None
            includes.append(Include(target, bool(header and header.group(1)), line))
            if target is None:
                refused.append(Remark(line, "an #include computed by a macro is not resolved"))
            elif not is_allowed(target):
                refused.append(Remark(line, f"header {target[:120]!r} is not in the allowed set"))
        elif name in _FORBIDDEN_DIRECTIVES:
            refused.append(Remark(line, f"{_FORBIDDEN_DIRECTIVES[name]} is not allowed"))
        elif name in {"if", "elif", "ifdef", "ifndef", "elifdef", "elifndef"}:
            for word in _WORD.findall(rest):
                reserved = word.startswith("__") or (word.startswith("_") and word[1:2].isupper())
                if (reserved and word not in ALLOWED_CONDITIONS) or word in {"linux", "unix"}:
                    refused.append(
                        Remark(line, f"a conditional on {word} makes executors see different programs")
                    )
        elif name == "pragma" and not re.match(r"(unroll|nounroll|once|diag_suppress|nv_\w+)\b", rest):
            refused.append(Remark(line, f"#pragma {rest[:40]} is not allowed"))
    if "define" in text and (words := expanded_words(text)) > MAX_WORDS:
        refused.append(
            Remark(1, f"the macros of this source expand to {words} words, at most {MAX_WORDS} are taken")
        )
    for match in re.finditer(r"\b(__has_include(?:_next)?|__has_embed|_Pragma)\b", text):
        line = text.count("\n", 0, match.start()) + 1
        refused.append(Remark(line, f"{match.group(1)} is not allowed"))
    return includes, refused


def is_allowed(header: str) -> bool:
    """Return whether kernel.cu may include `header`."""
    if header in HARMLESS or header in DEVICE:
        return True
    safe = re.fullmatch(r"[A-Za-z0-9_./-]+", header) is not None and ".." not in header
    return safe and header.startswith(_DEVICE_PREFIXES)


def define_macros(macros: Mapping[str, int]) -> str:
    """Return the `#define`s of tunables and defines in a fixed order, a line each; wide values get an LL suffix."""
    wide = {name: "" if -(2**31) <= value < 2**31 else "LL" for name, value in macros.items()}
    return "".join(f"#define {name} {macros[name]}{wide[name]}\n" for name in sorted(macros))


def resolve_includes(source: str) -> IncludeResolution:
    """Return the source that a compiler may see: no named file outside the allowed set is ever opened."""
    text = as_read(source)
    includes, refused = directive_facts(text)
    lines = text.split("\n")
    headers: list[str] = []
    for include in includes:
        if include.name is None or not is_allowed(include.name):
            continue
        if include.name in HARMLESS:
            lines[include.line - 1] = ""
        elif include.name not in headers:
            headers.append(include.name)
    return IncludeResolution("\n".join(lines), tuple(headers), tuple(sorted(refused, key=lambda r: r.line)))
