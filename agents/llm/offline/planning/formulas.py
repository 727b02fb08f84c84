"""Formulas in a request: found, and read to their end or refused."""

import re
from dataclasses import dataclass, field

from cuda_harness.agents.llm.offline.planning.formula_forms import with_own_indices
from cuda_harness.agents.llm.offline.planning.numbers import NUMBER, REAL, read_size
from cuda_harness.agents.llm.offline.planning.numerals import plain_numbers
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.tools.formula.nodes import (
    Access,
    Binary,
    Call,
    Name,
    Node,
    Num,
    Statement,
    accesses,
    bound_variables,
    walk,
)
from cuda_harness.tools.formula.parse import longest_expression

_LEFT = re.compile(
    r"(?<![\w.])(?P<name>[A-Za-z_]\w*)(?P<place>\s*\[[^\[\]=]*\]|\(\s*[A-Za-z]\w*(?:\s*,\s*[A-Za-z]\w*)*\s*\))?\s*(?::=|(?<![=<>!+*/-])=(?!=)|<-)\s*"
)
GREEK = frozenset(
    {
        "alpha",
        "beta",
        "gamma",
        "delta",
        "lambda_",
        "eps",
        "epsilon",
        "mu",
        "sigma",
        "theta",
        "tau",
        "slope",
        "scale",
        "factor",
        "temperature",
    }
)
_USUAL = frozenset({"bias", "input", "weight", "weights", "target", "pred", "shift", "vec"})
SIZE_NAMES = frozenset({"n", "m", "k", "rows", "cols", "len", "size", "count", "d"})
"""Bare names that mean the length of an axis."""
_LATER = frozenset({"for", "where", "with", "and", "over", "in", "using", "given", "on", "as", "elementwise", "element", "kernel", "then",
                    "is", "are", "to", "when", "each", "every", "all", "at", "the", "by", "of"})  # fmt: skip
"""Words that may follow a formula."""
_REDUCERS = r"(?:sum|max|min|mean|prod|product|argmax|argmin|average|maximum|minimum)"


@dataclass
class Formulas:
    """The formulas of a request and the text without them."""

    statements: list[Statement] = field(default_factory=list)
    rest: str = ""
    values: dict[str, float] = field(default_factory=dict)
    """Values that the text gives to bare names in the formulas (`a = 2.5`), by lower-case name."""
    sizes: dict[str, int] = field(default_factory=dict)
    """How far an index with a name of more than one letter runs (`col = 20`)."""


def find_formulas(request: str) -> Formulas:
    """Return every formula of the text; raises Refusal for one that begins and cannot be read to its end."""
    text = _plain(request)
    found = Formulas()
    at = 0
    kept: list[str] = []
    while (match := _LEFT.search(text, at)) is not None:
        right = longest_expression(text[match.end() :])
        if right is None or _is_size(match, right[0]):
            kept.append(text[at : match.end()])
            at = match.end()
            continue
        value, length = right
        end = match.end() + length
        _check_end(text, match.start(), end)
        _check_names(value, text[match.start() : end])
        place = match["place"] or ""
        indices: tuple[str, ...] = ()
        if place.strip().startswith("["):
            indices = tuple(i.strip() for i in place.strip()[1:-1].split(","))
            if not all(re.fullmatch(r"[A-Za-z]\w*", i) for i in indices):
                msg = f"the left side of {text[match.start() : end]!r} must have plain index variables"
                raise Refusal(msg)
        found.statements.append(Statement(match["name"], indices, with_own_indices(indices, value)))
        kept += [text[at : match.start()], " , "]
        at = end
    kept.append(text[at:])
    found.rest = "".join(kept)
    return found if found.statements else _bare_expression(text, found)


_ASKED = re.compile(
    r"(?i)^\s*|\breplac\w*(?:\s+\w+){0,6}?\s+(?:by|with)\s+|\b(?:comput\w*|calculat\w*|evaluat\w*|weighted sum|linear combination|formula|expression|polynomial|function|kernel for|implement\w*)\s*:?\s+"
)


_PRODUCT_FIRST = re.compile(r"(?<=\s)(?=(?:[a-z]\w?|alpha)\s?\*\s?[a-z]\w?\s?[-+])")
"""`a*b + c` anywhere."""


def _looks_like_a_name(name: str) -> bool:
    """Whether a word in an expression without a left side is a name: short, numbered, or usual in formulas."""
    return len(name) <= 2 or any(c.isdigit() or c == "_" for c in name) or name.lower() in (GREEK | _USUAL)


def _bare_expression(text: str, found: Formulas) -> Formulas:
    """Read `compute a*x + y`: an expression without a left side, when it stands where one is asked for."""
    for match in (*_ASKED.finditer(text), *_PRODUCT_FIRST.finditer(text)):
        right = longest_expression(text[match.end() :])
        if right is None:
            continue
        value, length = right
        parts = list(walk(value))
        names = [n for n in parts if isinstance(n, Name | Access)]
        if not all(_looks_like_a_name(n.name) for n in names):
            continue  # `max-reduce` is a word, not a difference
        if not names or len(parts) < 3 or not any(isinstance(n, Binary | Call) for n in parts):
            continue
        end = match.end() + length
        try:
            _check_end(text, match.start(), end)
        except Refusal:
            continue
        _check_names(value, text[match.end() : end])
        taken = {n.name for n in names}
        target = next(t for t in ("y", "out", "result", "out_") if t not in taken)
        variables = bound_variables(value)
        indices = dict.fromkeys(
            i.name
            for n in names
            if isinstance(n, Access)
            for i in n.indices
            if isinstance(i, Name) and i.name not in variables
        )
        found.statements.append(Statement(target, tuple(indices), value))
        found.rest = f"{text[: match.end()]} , {text[end:]}"
        break
    return found


def _plain(text: str) -> str:
    """Return the request with mathematical writing brought to the formula language's."""
    text = (
        text.replace("\u2211", "sum")
        .replace("\u03a3", "sum")
        .replace("\\sum", "sum")
        .replace("\u2212", "-")
        .replace("\u00b7", "*")
    )
    text = (
        text.replace("\u00b2", "^2")
        .replace("\u00b3", "^3")
        .replace("\u221a", "sqrt")
        .replace("\u2264", "<=")
        .replace("\u2265", ">=")
    )
    text = plain_numbers(re.sub(r"`+", " ", text))
    text = re.sub(r"(?<![\w.])(\d+(?:\.\d+)?)([xyz])(?=\s*[-+*/^)])(?!\s*\d)", r"\1*\2", text)
    text = re.sub(r"\]\s*\[", ",", text)
    text = re.sub(r"\b(?:np|numpy|math|torch|F|jnp)\.(?=[a-z])", "", text)
    text = re.sub(
        rf"\b({_REDUCERS})_?\{{?\(?\s*([a-z])\s*=\s*[^{{}}()=]{{1,12}}\}}?\)?\^?\{{[^{{}}]*\}}",
        r"\1_\2 ",
        text,
    )
    text = re.sub(rf"\b({_REDUCERS})_\{{\s*([a-z])\s*=\s*[^{{}}]*\}}", r"\1_\2 ", text)
    text = re.sub(
        rf"\b({_REDUCERS}) over (?:all )?([a-z])(?: and ([a-z]))? of (?=[\w(|])",
        lambda m: f"{m[1]}_{{{m[2]}{',' + m[3] if m[3] else ''}}} ",
        text,
    )
    text = re.sub(r"\bproduct_", "prod_", text)
    text = re.sub(r"\baverage_", "mean_", text)
    text = re.sub(r"\bmaximum_", "max_", text)
    return re.sub(r"\bminimum_", "min_", text)


def _check_names(value: Node, shown: str) -> None:
    """Refuse products that are written without a sign, and transposes: they would be read as names and powers."""
    for node in walk(value):
        if isinstance(node, Name | Access) and re.fullmatch(r"[A-Z][a-z]", node.name):
            msg = f"{node.name!r} in {shown!r} may be a product; write it with explicit indices, for example y[i] = sum_j a[i,j]*x[j]"
            raise Refusal(msg)
        if (
            isinstance(node, Binary)
            and node.op == "^"
            and isinstance(node.right, Name)
            and node.right.name == "T"
        ):
            msg = f"the transpose in {shown!r} is no power; write the formula with explicit indices"
            raise Refusal(msg)


def _is_size(match: re.Match[str], value: Node) -> bool:
    """Whether `name = number` states a size or a parameter rather than a computation."""
    plain = value.operand if hasattr(value, "operand") else value
    return not match["place"] and (
        isinstance(plain, Num)
        or (isinstance(plain, Binary) and plain.op == "^" and isinstance(plain.left, Num))
    )


def _check_end(text: str, start: int, end: int) -> None:
    rest = text[end:].lstrip(" \t")
    word = re.match(r"[A-Za-z_]\w*", rest)
    if rest[:1] in {"", "\n", ",", ".", ";", ")", ":", "!", "?"} or (word and word[0].lower() in _LATER):
        return
    shown = text[start : end + 40].strip()
    msg = f"the formula {shown!r} cannot be read to its end; write it with explicit indices, for example y[i] = a*x[i] + y[i]"
    raise Refusal(msg)


def take_values(formulas: Formulas) -> None:
    """Move `a = 2.5` from the text to the values, where a is a bare name of a formula and no size."""
    indices = {v for s in formulas.statements for v in (*s.indices, *bound_variables(s.value))}
    bare = {n.name for s in formulas.statements for n in walk(s.value) if isinstance(n, Name)} - indices

    for name in sorted(n for n in bare if n.lower() not in SIZE_NAMES):
        pattern = rf"(?<![\w.]){re.escape(name)}\s*(?:=|:=|\bis\b)\s*({REAL})(?![\w^*/+])"
        match = re.search(pattern, formulas.rest)
        if match is not None:
            formulas.values[name.lower()] = float(match[1])
            formulas.rest = f"{formulas.rest[: match.start()]} {formulas.rest[match.end() :]}"


def take_sizes(formulas: Formulas) -> None:
    """Move `col = 20` from the text to the sizes, where col is an index of a formula; single letters are read as sizes anyway."""
    indices = {v for s in formulas.statements for v in (*s.indices, *bound_variables(s.value)) if len(v) > 1}
    for name in sorted(indices):
        pattern = rf"(?<![\w.]){re.escape(name)}\s*(?:=|:=|\bis\b)\s*({NUMBER})(?![\w^*/+.]|\s*,?\s*\.\.)"
        match = re.search(pattern, formulas.rest, re.IGNORECASE)
        value = read_size(match[1]) if match is not None else None
        if match is not None and value is not None:
            formulas.sizes[name] = value
            formulas.rest = f"{formulas.rest[: match.start()]} {formulas.rest[match.end() :]}"


def is_indexed(formulas: Formulas) -> bool:
    """Return whether any formula has explicit indices."""
    return any(s.indices or accesses(s.value) for s in formulas.statements)
