"""Device code turned into C++ for the shim headers: a tokeniser, no parser; every line keeps its number.

What changes: shared variables become references into the block's memory, `extern __shared__` a pointer to the
dynamic part, one-line `extern "C"` variables definitions, early returns of a kernel are announced, inline PTX goes
through a table of idioms. All else is left to the shim headers.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from cuda_harness.tools.execute.cpu.ptx import translate, unknown_instruction
from cuda_harness.tools.toolchain.source import SourceFacts

AsmTable = Callable[[str], str | None]
"""Maps the text of one asm statement, `;` excluded, to C++ on one line; `None` when it is not in the table."""

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d(?:[\w.']|[eEpP][+-])*|::|->|\S")
_WORD = re.compile(r"[A-Za-z_]\w*\Z")
_HIDDEN = re.compile(
    r"//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)|R\"([^()\\\s]{0,16})\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?",
    re.DOTALL,
)
_SPECIFIERS_WITH_PARENTHESES = frozenset(
    {"alignas", "__align__", "__attribute__", "decltype", "__builtin_align__"}
)
_RECORDS = frozenset({"struct", "class", "union", "enum"})
_GLOBAL_SPACES = frozenset({"__device__", "__constant__", "__managed__"})
_NO_VARIABLE = _RECORDS | {"template", "typedef", "using", "friend", "operator", "namespace", "static_assert"}
_ASM = frozenset({"asm", "__asm__", "__asm"})
CLASHING = frozenset({
    "div", "drem", "exit", "finite", "gamma", "index", "link", "read", "remove", "rename", "rindex", "signal",
    "signgam", "significand", "time", "write", "y0", "y1", "yn", "j0", "j1", "jn", "scalb", "abort", "select",
})  # fmt: skip
"""Names that the C library declares at file scope and device code may use for its own."""


@dataclass(frozen=True)
class Rewritten:
    """The text for g++; `renamed` maps a file-scope name of the kernel's to the one it has in the text.

    Every entry is renamed: device code may call one `select` or `step`, which the C library declares too.
    """

    text: str
    kernels: tuple[str, ...]
    renamed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unsupported:
    """What the CPU executor cannot run; a GPU may."""

    line: int
    message: str


class _Refused(Exception):  # noqa: N818 - carries an Unsupported out of the walk
    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.unsupported = Unsupported(line, message)


def blanked(source: str) -> str:
    """Return `source` at the same length with comments, strings, characters and directives as spaces."""
    text = _HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), source)
    lines = text.split("\n")
    continued = False
    for index, line in enumerate(lines):
        if continued or line.lstrip().startswith("#"):
            continued = line.rstrip("\r").endswith("\\")
            lines[index] = " " * len(line)
    return "\n".join(lines)


def rewrite(source: str, facts: SourceFacts, *, asm: AsmTable | None = None) -> Rewritten | Unsupported:
    """Return `source` (includes resolved already) as C++ over the shim headers, or what cannot run here.

    Args:
        source: Text of kernel.cu.
        facts: Its parsed facts; the kernels' names come from here.
        asm: Table of inline PTX idioms; `None`: the built-in one.
    """
    kernels = tuple(dict.fromkeys(k.name for k in facts.kernels if k.is_extern_c and not k.is_template))
    try:
        walk = _Walk(source, asm or translate, kernels)
        text = walk.result()
    except _Refused as refused:
        return refused.unsupported
    return Rewritten(text, kernels, walk.renamed)


@dataclass
class _Scope:
    kind: Literal["space", "record", "kernel", "code", "lambda"]
    names: frozenset[str] = frozenset()


class _Walk:
    """One pass over the tokens that gathers edits (start, end, new text)."""

    def __init__(self, source: str, asm: AsmTable, kernels: tuple[str, ...]) -> None:
        self.source, self.asm, self.kernels = source, asm, kernels
        self.hidden = blanked(source)
        found = list(_TOKEN.finditer(self.hidden))
        self.tokens = [m.group() for m in found]
        self.starts = [m.start() for m in found]
        self.edits: list[tuple[int, int, str]] = []
        self.views: dict[str, str] = {}
        self.renamed: dict[str, str] = {}
        self.scopes: list[_Scope] = []
        self._directives_hide_nothing()

    def _directives_hide_nothing(self) -> None:
        """Refuse shared variables and asm made by macros: they are out of the walk's sight."""
        text = _HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), self.source)
        for word in re.finditer(r"\b(__shared__|asm|__asm__)\b", text):
            if self.hidden[word.start()] == " ":
                line = self.source.count("\n", 0, word.start()) + 1
                raise _Refused(line, f"`{word.group()}` inside a macro cannot run on the CPU executor")

    def result(self) -> str:
        at = 0
        while at < len(self.tokens):
            at = self._step(at)
        self._rename_clashing()
        pieces, position = [], 0
        for start, end, new in sorted(self.edits, key=lambda e: (e[0], e[1])):
            if start < position:
                continue
            pieces += [self.source[position:start], new]
            position = end
        pieces.append(self.source[position:])
        return "".join(pieces)

    # ---- places ----
    def _line(self, at: int) -> int:
        return self.source.count("\n", 0, self.starts[at]) + 1

    def _end(self, at: int) -> int:
        return self.starts[at] + len(self.tokens[at])

    def _newlines(self, first: int, last: int) -> str:
        """The line breaks of the source between two positions, so that later lines keep their number."""
        return "\n" * self.source.count("\n", first, last)

    def _close(self, at: int) -> int:
        """Index of the word that closes the bracket at `at`; the last word when none does."""
        pairs = {"(": ")", "[": "]", "{": "}"}
        depth = 0
        for index in range(at, len(self.tokens)):
            if self.tokens[index] in pairs:
                depth += 1
            elif self.tokens[index] in pairs.values():
                depth -= 1
                if depth == 0:
                    return index
        return len(self.tokens) - 1

    def _open(self, at: int) -> int:
        """Index of the word that opens the bracket closed at `at`; 0 when none does."""
        depth = 0
        for index in range(at, -1, -1):
            if self.tokens[index] in {")", "]", "}"}:
                depth += 1
            elif self.tokens[index] in {"(", "[", "{"}:
                depth -= 1
                if depth == 0:
                    return index
        return 0

    def _statement(self, at: int) -> int:
        """Index of the first word of the declaration that `at` is part of."""
        index = at
        while index > 0:
            before = self.tokens[index - 1]
            if before in {";", "{", "}", ":"}:
                break
            if before == ")":
                opening = self._open(index - 1)
                if opening == 0 or self.tokens[opening - 1] not in _SPECIFIERS_WITH_PARENTHESES:
                    break
                index = opening
            else:
                index -= 1
        return index

    @property
    def _at_file_scope(self) -> bool:
        return all(s.kind == "space" for s in self.scopes)

    # ---- the walk ----
    def _step(self, at: int) -> int:
        word = self.tokens[at]
        if word == "{":
            self._enter(at)
        elif word == "}":
            if self.scopes:
                self.scopes.pop()
        elif word == "__shared__":
            return self._shared(at)
        elif word in _GLOBAL_SPACES and self._at_file_scope:
            self._global(at)
        elif word in _ASM and at + 1 < len(self.tokens):
            return self._asm(at)
        elif word == "extern":
            self._extern(at)
        elif word == "return" and self.tokens[at + 1 : at + 2] == [";"]:
            if (
                self.scopes
                and next(
                    (s for s in reversed(self.scopes) if s.kind in {"kernel", "lambda"}), _Scope("space")
                ).kind
                == "kernel"
            ):
                self.edits.append((self.starts[at], self._end(at + 1), "{ ::sim_returned_early(); return; }"))
        elif word == "__noinline__":
            if self.tokens[at - 1 : at] != ["("]:
                self.edits.append((self.starts[at], self._end(at), "__attribute__((noinline))"))
        elif word == "__forceinline__":
            self._force_inline(at)
        elif word == "<" and self.tokens[at : at + 3] == ["<", "<", "<"]:
            line = self._line(at)
            raise _Refused(line, "a kernel launched from a kernel cannot run on the CPU executor")
        return at + 1

    def _enter(self, at: int) -> None:
        first = at
        while first > 0 and self.tokens[first - 1] not in {";", "{", "}"}:
            first -= 1
        head = self.tokens[first:at]
        inside = bool(self.scopes) and self.scopes[-1].kind in {"kernel", "code", "lambda"}
        if "namespace" in head or head[-1:] == ["extern"]:
            kind: Literal["space", "record", "kernel", "code", "lambda"] = "space"
        elif "__global__" in head and not inside:
            kind = "kernel"
        elif self._opens_lambda(at):
            kind = "lambda"
        elif _RECORDS & set(head) and ")" not in head:
            kind = "record"
        else:
            kind = "code"
        self.scopes.append(_Scope(kind))
        if kind in {"kernel", "code"} and not inside and self.views:
            body = set(self.tokens[at : self._close(at)])
            used = [v for n, v in self.views.items() if n in body and n not in head]
            if used:
                self.edits.append((self._end(at), self._end(at), " " + " ".join(used)))

    def _opens_lambda(self, at: int) -> bool:
        index = at - 1
        for back in range(at - 1, max(-1, at - 12), -1):
            if self.tokens[back] == "->":
                index = back - 1
                break
            if self.tokens[back] in {";", "{", "}", ")"}:
                break
        while index >= 0 and self.tokens[index] in {
            "mutable",
            "noexcept",
            "__device__",
            "__host__",
            "constexpr",
        }:
            index -= 1
        if index < 0:
            return False
        if self.tokens[index] == ")":
            index = self._open(index) - 1
            while index >= 0 and self.tokens[index] in {"__device__", "__host__"}:
                index -= 1
        return index >= 0 and self.tokens[index] == "]"

    def _force_inline(self, at: int) -> None:
        """`inline __forceinline__` would say `inline` twice."""
        first = self._statement(at)
        last = at
        while last + 1 < len(self.tokens) and self.tokens[last] not in {"(", ";", "{"}:
            last += 1
        if "inline" in self.tokens[first:last] or "__inline__" in self.tokens[first:last]:
            self.edits.append((self.starts[at], self._end(at), "__attribute__((always_inline))"))

    def _asm(self, at: int) -> int:
        opening = at + 1
        while opening < len(self.tokens) and self.tokens[opening] in {
            "volatile",
            "__volatile__",
            "inline",
            "goto",
        }:
            opening += 1
        if opening >= len(self.tokens) or self.tokens[opening] != "(":
            return at + 1
        closing = self._close(opening)
        start, end = self.starts[at], self._end(closing)
        statement = self.source[start:end]
        translated = self.asm(statement)
        if translated is None:
            line = self._line(at)
            shown = (unknown_instruction(statement) or " ".join(statement.split()))[:80]
            raise _Refused(line, f"inline PTX `{shown}` is not known to the CPU executor; it runs on a GPU")
        self.edits.append((start, end, translated.replace("\n", " ") + self._newlines(start, end)))
        return closing + 1

    def _extern(self, at: int) -> None:
        """`extern "C" __constant__ T v[..];` declares in C++ and defines in CUDA."""
        end = at + 1
        if self.hidden[self._end(at) : self.starts[end] if end < len(self.tokens) else None].strip():
            return
        linkage = self.source[self._end(at) : self.starts[end]] if end < len(self.tokens) else ""
        if '"' not in linkage:
            return
        while end < len(self.tokens) and self.tokens[end] not in {";", "{"}:
            end = self._close(end) + 1 if self.tokens[end] in {"(", "["} else end + 1
            if end < len(self.tokens) and self.tokens[end] == "{" and "=" in self.tokens[at:end]:
                end = self._close(end) + 1
        words = self.tokens[at:end]
        if (
            end >= len(self.tokens)
            or self.tokens[end] == "{"
            or not {"__constant__", "__device__"} & set(words)
        ):
            return
        calls = [
            i for i, t in enumerate(words) if t == "(" and words[i - 1] not in _SPECIFIERS_WITH_PARENTHESES
        ]
        if calls and "=" not in words[: calls[0]]:
            return
        first = self.starts[at + 1]
        self.edits.append((first, first, "{ "))
        self.edits.append((self._end(end), self._end(end), " }"))

    def _global(self, at: int) -> None:
        """Announce a device variable, with room on both sides that check mode watches."""
        first, end = self._statement(at), at
        while end < len(self.tokens) and self.tokens[end] not in {";", "=", "{", "["}:
            if self.tokens[end] == "(":
                if self.tokens[end - 1] not in _SPECIFIERS_WITH_PARENTHESES:
                    return
                end = self._close(end)
            end += 1
        words = self.tokens[first:end]
        if end >= len(self.tokens) or set(words) & _NO_VARIABLE or words[-1] in _GLOBAL_SPACES:
            return
        if "extern" in words and '"' not in self.source[self.starts[first] : self.starts[at]]:
            return
        if set(words[: words.index(self.tokens[at])]) & _GLOBAL_SPACES:
            return  # `__device__ __constant__`: announced at the first word
        while end < len(self.tokens) and self.tokens[end] != ";":
            end = self._close(end) + 1 if self.tokens[end] in {"(", "[", "{"} else end + 1
        if end >= len(self.tokens):
            return
        names = [self.tokens[i] for i in self._names(first, end) if self.tokens[i] not in _GLOBAL_SPACES]
        self.edits.append((self.starts[first], self.starts[first], "SIM_FENCE "))
        self.edits.append((self.starts[at], self.starts[at], "SIM_IN_ORDER "))
        told = "".join(f" SIM_GLOBAL({n})" for n in names)
        gap = " " if self.source[self._end(end) : self._end(end) + 1].strip() else ""
        self.edits.append((self._end(end), self._end(end), f"{told} SIM_FENCE{gap}"))

    # ---- shared variables ----
    def _shared(self, at: int) -> int:
        first = self._statement(at)
        last = at
        while last < len(self.tokens) and self.tokens[last] != ";":
            last = self._close(last) + 1 if self.tokens[last] in {"(", "[", "{"} else last + 1
        if last >= len(self.tokens):
            return at + 1
        start, end = self.starts[first], self._end(last)
        outer = any(s.kind in {"kernel", "code", "lambda"} for s in self.scopes)
        words = range(first, last)
        if "extern" in (self.tokens[i] for i in words):
            new = self._dynamic(first, last, inside=outer)
        else:
            new = self._static(first, last, inside=outer)
        self.edits = [e for e in self.edits if not start <= e[0] < end]
        self.edits.append((start, end, new + self._newlines(start, end)))
        return last + 1

    def _names(self, first: int, last: int) -> list[int]:
        """Indices of the declared names between `first` and `last` (the `;`)."""
        names: list[int] = []
        candidate: int | None = None
        decided = False
        index = first
        while index < last:
            word = self.tokens[index]
            if word == "<" and not decided and candidate is not None:
                index = self._skip_template(index, last)
                continue
            if word in {"(", "[", "{"}:
                closing = self._close(index)
                special = self.tokens[index - 1] in _SPECIFIERS_WITH_PARENTHESES
                record = word == "{" and not decided and _RECORDS & set(self.tokens[first:index])
                if word == "(" and not special and not decided and self.tokens[index + 1] in {"*", "&"}:
                    inner = [i for i in range(index, closing) if _WORD.match(self.tokens[i])]
                    candidate = inner[-1] if inner else candidate
                if not special and not record:
                    decided = True
                index = closing + 1
                continue
            if word == ",":
                if candidate is not None:
                    names.append(candidate)
                candidate, decided = None, False
            elif word == "=":
                decided = True
            elif _WORD.match(word) and not decided and word not in _SPECIFIERS_WITH_PARENTHESES:
                candidate = index
            index += 1
        if candidate is not None:
            names.append(candidate)
        return names

    def _skip_template(self, at: int, last: int) -> int:
        depth = 0
        index = at
        while index < last:
            word = self.tokens[index]
            if word in {"(", "[", "{"}:
                index = self._close(index)
            elif word == "<":
                depth += 1
            elif word == ">":
                depth -= 1
                if depth == 0:
                    return index + 1
            index += 1
        return last

    def _typedef(self, first: int, last: int, names: list[int], drop: frozenset[str]) -> str:
        """The declaration as one typedef on one line, the names prefixed, `drop` left out."""
        out = []
        index = first
        while index < last:
            word = self.tokens[index]
            if word in drop:
                if self.tokens[index + 1] == "(" and word in _SPECIFIERS_WITH_PARENTHESES:
                    index = self._close(index + 1)
            elif index in names:
                out.append("sim_t_" + word)
            elif word == "alignas" and self.tokens[index + 1] == "(":
                closing = self._close(index + 1)
                inner = " ".join(self.tokens[index + 2 : closing])
                number = re.fullmatch(r"\d\w*|[A-Z][A-Z0-9_]*|.*[*+].*|sizeof.*|alignof.*", inner)
                out.append(f"__attribute__((aligned({inner if number else f'alignof({inner})'})))")
                index = closing
            else:
                out.append(word)
            index += 1
        return "typedef " + " ".join(out) + ";"

    def _static(self, first: int, last: int, *, inside: bool) -> str:
        names = self._names(first, last)
        made = [self._typedef(first, last, names, frozenset({"__shared__", "static"}))]
        for at in names:
            n = self.tokens[at]
            made.append(f"struct sim_tag_{n} {{}};")
            reference = f'auto& {n} = ::sim_shared_variable<sim_t_{n}, sim_tag_{n}>("{n}");'
            if inside:
                made.append(reference)
            else:
                self.views[n] = reference  # each function that names it makes its own
        return " ".join(made)

    def _dynamic(self, first: int, last: int, *, inside: bool) -> str:
        names = self._names(first, last)
        drop = frozenset({"__shared__", "extern", *_SPECIFIERS_WITH_PARENTHESES} - {"decltype"})
        made = []
        for at in names[:1]:
            n = self.tokens[at]
            after = self._close(at + 1) + 1 if self.tokens[at + 1] == "[" else at + 1
            kept = self._typedef(first, at + 1, [at], drop).removesuffix(";")
            rest = " ".join(t for t in self.tokens[after:last])
            rest = re.sub(r"__align__ \(.*?\)|__attribute__ \( \(.*\) \)", "", rest)
            made.append(f"{kept} {rest};")
            pointer = f"sim_t_{n}* const {n} = ::sim_dynamic_shared<sim_t_{n}>();"
            if inside:
                made.append(pointer)
            else:
                self.views[n] = pointer
        return " ".join(made)

    # ---- names of the C library ----
    def _rename_clashing(self) -> None:
        """Give file-scope names of the kernel's that the C library declares too a name of their own."""
        self.renamed = {name: f"{name}_kernel" for name in self.kernels}
        depth = 0
        spaces = self._space_braces()
        for index, word in enumerate(self.tokens):
            if word == "{" and index not in spaces:
                depth += 1
            elif word == "}" and index not in spaces:
                depth -= 1
            elif (
                depth == 0
                and word in CLASHING
                and word not in self.renamed
                and self.tokens[index + 1 : index + 2]
                and self.tokens[index + 1] in "([=;{"
            ):
                self.renamed[word] = word + "_"
        for index, word in enumerate(self.tokens):
            if word in self.renamed and self.tokens[index - 1 : index] not in (["."], ["->"]):
                self.edits.append((self.starts[index], self._end(index), self.renamed[word]))

    def _space_braces(self) -> set[int]:
        found: set[int] = set()
        for index, word in enumerate(self.tokens):
            if word != "{":
                continue
            first = index
            while first > 0 and self.tokens[first - 1] not in {";", "{", "}"}:
                first -= 1
            if "namespace" in self.tokens[first:index] or self.tokens[index - 1 : index] == ["extern"]:
                found |= {index, self._close(index)}
        return found
