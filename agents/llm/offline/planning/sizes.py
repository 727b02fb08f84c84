"""The sizes that a request states: shapes, counts with their unit, and named sizes; each must find its place."""

import re
from dataclasses import dataclass, field

from cuda_harness.agents.llm.offline.planning.marked import Marked
from cuda_harness.agents.llm.offline.planning.numbers import BYTES, NUMBER, read_bytes, read_size
from cuda_harness.agents.llm.offline.planning.refusal import Refusal

Size = int | str
"""A number, or the name of a size whose value is given elsewhere or nowhere."""

_SYMBOL = r"(?:batch_size|seq_len|count|hidden_dim|hidden|rows|cols|columns|classes|channels|features|batch|[a-z]|[a-z]\d)"
_ITEM = rf"(?:{NUMBER}|\b{_SYMBOL}\b)"
_DIMENSIONS = frozenset({"n", "m", "k", "rows", "cols", "columns", "h", "w"})
"""Names that make a shape even where no number stands beside them."""
_TIMES = r"\s*(?:x|×|\bby\b)\s*"
_BEFORE: tuple[tuple[str, str], ...] = (
    ("rows", r"(?:(?:number|count) of )?(?:rows?|tokens|sequence length|seq len)"),
    ("samples", r"(?:(?:number|count) of )?(?:samples|examples|instances)"),
    ("cols", r"(?:(?:number|count) of )?(?:columns?|cols?)"),
    ("classes", r"(?:(?:number|count) of )?(?:classes|categories|vocabulary size|vocab size)"),
    ("features", r"(?:(?:number|count) of )?(?:features|hidden units|units)"),
    ("channels", r"(?:(?:number|count) of )?channels"),
    ("elements", r"(?:total )?(?:number|count) of (?:elements|entries|values)"),
)
"""Units that may stand before their number: `classes 1000`, `number of rows: 64`."""
_UNITS: tuple[tuple[str, str], ...] = (
    (
        "elements",
        r"(?:total )?(?:elements?|entries|values|numbers|floats?|doubles|integers|items|points|components|scalars|bins|samples in total|slots|cells)",
    ),
    ("rows", r"(?:rows?|tokens)"),
    ("samples", r"(?:samples|examples|instances|observations)"),
    ("cols", r"(?:columns?|cols?)"),
    ("batch", r"(?:batches|matrices|images|feature maps|pairs of matrices|independent matrices)"),
    ("classes", r"(?:classes|categories|labels|logits)"),
    ("features", r"(?:features|units|hidden units|dimensions)"),
    ("channels", r"(?:channels|(?:feature )?maps per image)"),
)


@dataclass
class Shape:
    """`4096 x 1024` as it was written."""

    sizes: tuple[Size, ...]
    text: str
    place: int
    used: bool = False


@dataclass
class Count:
    """`1024 elements`: a number with its unit."""

    unit: str
    value: int
    text: str
    used: bool = False


@dataclass
class Sizes:
    """Everything a request says about sizes."""

    shapes: list[Shape] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    named: dict[str, int] = field(default_factory=dict)
    used_names: set[str] = field(default_factory=set)
    suffixed: list[str] = field(default_factory=list)
    """Sizes with a K, M or G, and what they were read as."""

    @property
    def silent(self) -> bool:
        """Whether the request says nothing about sizes."""
        return not (self.shapes or self.counts or self.named)

    @property
    def batch_of_matrices(self) -> bool:
        """Whether the batch was said as a number of matrices or images."""
        return any(c.unit == "batch" and re.search(r"matri|image|map", c.text) for c in self.counts)

    def value(self, size: Size) -> int | None:
        """Return the number of a size, `None` when its name has no value."""
        if isinstance(size, int):
            return size
        self.used_names.add(size)
        return self.named.get(size)

    def count(self, *units: str) -> int | None:
        """Return the stated count of any of `units`; the same unit with two values is a contradiction."""
        found = [c for c in self.counts if c.unit in units]
        for count in found:
            count.used = True
        values = {c.value for c in found}
        if len(values) > 1:
            shown = " and ".join(repr(c.text) for c in found[:3])
            msg = f"the sizes contradict each other: {shown} cannot both hold"
            raise Refusal(msg)
        return found[0].value if found else None

    def chained(self) -> bool:
        """Whether two matrix shapes are stated that are no one shape and fit a product: columns of one, rows of the next."""
        stated = [s.sizes for s in self.shapes if len(s.sizes) == 2]
        return len(stated) >= 2 and stated[0] != stated[1] and stated[0][1] == stated[1][0]

    def left_over(self) -> list[str]:
        """Return what was stated and found no place."""
        return (
            [s.text for s in self.shapes if not s.used]
            + [c.text for c in self.counts if not c.used]
            + [f"{n} = {v}" for n, v in self.named.items() if n not in self.used_names]
        )


def take_memory(text: Marked) -> list[str]:
    """Take amounts of memory (`64 MiB`) out of the text: how many elements they are depends on the element type."""
    found: list[str] = []

    def take(match: re.Match[str]) -> str:
        found.append(match[0])
        return " "

    text.replace(
        re.compile(rf"(?<![\w.]){BYTES}(?: of(?= (?:data|memory|float|double|half|int|bf|fp|bytes|uint)))?"),
        take,
    )
    return found


def read_sizes(text: Marked, *, memory: list[str], item_bytes: int) -> Sizes:
    """Take every size out of the text; `memory` are amounts in bytes, of elements of `item_bytes` each.

    Raises:
        Refusal: If a size is zero or an amount of memory holds no whole number of elements.
    """
    sizes = Sizes()
    for amount in memory:
        total = read_bytes(amount)
        if total is None or total % item_bytes or total < item_bytes:
            msg = f"{amount!r} holds no whole number of elements of {item_bytes} bytes"
            raise Refusal(msg)
        sizes.counts.append(Count("elements", total // item_bytes, amount))
        sizes.suffixed.append(f"{amount} = {total // item_bytes} elements of {item_bytes} bytes")
    _shapes(text, sizes)
    _named(text, sizes)
    _counts(text, sizes)
    return sizes


def _size(token: str, sizes: Sizes) -> Size:
    token = token.strip().lower()
    value = read_size(token)
    if value is None:
        return token
    if re.search(r"\d\s?[kmg]i?$", token):
        sizes.suffixed.append(f"{token} = {value}")
    return value


def _named(text: Marked, sizes: Sizes) -> None:
    pattern = re.compile(
        rf"\b(?P<name>{_SYMBOL})\s*(?:=|:=|\bis\b|\bequals\b|\bequal to\b)\s*(?P<value>{NUMBER})(?!\.?\d|\s*[*/+^])"
    )

    def take(match: re.Match[str]) -> str | None:
        value = read_size(match["value"])
        if value is None:
            return None
        _size(match["value"], sizes)
        name = {"columns": "cols", "batch_size": "batch"}.get(match["name"], match["name"])
        if sizes.named.get(name, value) != value:
            msg = f"the sizes contradict each other: {name} is both {sizes.named[name]} and {value}"
            raise Refusal(msg)
        sizes.named[name] = value
        return " "

    text.replace(pattern, take)


def _shapes(text: Marked, sizes: Sizes) -> None:
    # `a 512x256 by a 256x384 matrix`, `64x64 by 64x64`: `by` stands between two shapes, not within one
    text.replace(re.compile(rf"(?<=\d) by an? (?={NUMBER}{_TIMES}{NUMBER})"), lambda _m: " and a ")
    text.replace(
        re.compile(rf"(?<![\w.])({NUMBER} ?[x×] ?{NUMBER}) (?:by|times) ({NUMBER} ?[x×] ?{NUMBER})(?![\w.])"),
        lambda m: f"{m[1]} and {m[2]}",
    )
    bracketed = re.compile(
        rf"(?:\bshapes?\s*(?:of\s*)?[:=]?\s*)?[(\[]\s*(?P<list>{_ITEM}(?:(?:\s*,\s*|{_TIMES}){_ITEM})*\s*,?)\s*[)\]]"
    )
    plain = re.compile(rf"(?<![\w.])(?P<list>{_ITEM}(?:{_TIMES}{_ITEM})+)(?![\w])")

    def take(match: re.Match[str]) -> str | None:
        parts = (
            [match["a"], match["b"]]
            if "a" in match.re.groupindex
            else re.findall(
                rf"{NUMBER}|\b{_SYMBOL}\b(?!\s*\d)",
                re.sub(r"\b(?:x|by)\b|×|(?<=\d)x(?=\d)", " ; ", match["list"]),
            )
        )
        if len(parts) == 1 and not match[0].rstrip(" )]").endswith(",") and "shape" not in match[0]:
            return None
        if not any(read_size(p) is not None for p in parts) and "shape" not in match[0] and len(parts) < 2:
            return None
        own = tuple(_size(p, sizes) for p in parts)
        if any(isinstance(s, int) and s < 1 for s in own):
            msg = f"a size of zero makes no problem to time: {match[0].strip()!r}"
            raise Refusal(msg)
        sizes.shapes.append(Shape(own, match[0].strip(), match.start()))
        return f" \N{LEFT WHITE SQUARE BRACKET}shape{len(sizes.shapes) - 1}\N{RIGHT WHITE SQUARE BRACKET} "

    def take_plain(match: re.Match[str]) -> str | None:
        words = re.findall(
            r"[a-z]\w*", re.sub(r"\b(?:x|by)\b|(?<=\d)x(?=\d)|(?<=\d)[kmg]i?b?\b", " ", match["list"])
        )
        numbers = re.search(r"\d", match["list"]) is not None
        return take(match) if numbers or (words and set(words) <= _DIMENSIONS) else None

    rows = r"(?:rows?|samples?|vectors|sequences|lists|lines|tokens)"
    laid = re.compile(
        rf"\b(?P<list>(?P<a>{NUMBER}) {rows} (?:of|with|by|each of|each with|each having|having)(?: a)?(?: length| size| width)?(?: of)? (?P<b>{NUMBER}))(?: (?:columns|elements|entries|values|numbers|features|classes|logits|channels|long))?(?: each)?\b(?! ?(?:x|by) ?\d)"
    )

    def take_laid(match: re.Match[str]) -> str | None:
        few = (read_size(match["a"]) or 0) <= 4
        if few and re.search(r"\d (?:vectors|sequences|lists) ", match[0]):
            return None  # `3 vectors of 4096` counts operands
        return (
            take(match) if read_size(match["a"]) is not None and read_size(match["b"]) is not None else None
        )

    across = r"(?:columns?|cols?|features|channels|classes|entries per row|elements per row|values per row)"
    joined = r"(?: ?,? ?(?:and|by|x|×|with)? ?)"
    for first, second, one, two in ((rows, across, "a", "b"), (across, rows, "b", "a")):
        pattern = rf"(?<![\w.])(?P<list>(?P<{one}>{NUMBER}) {first}{joined}(?P<{two}>{NUMBER}) {second}\b)(?: each)?"
        text.replace(re.compile(pattern), take_laid)
    text.replace(laid, take_laid)
    text.replace(bracketed, take)
    text.replace(plain, take_plain)


def _counts(text: Marked, sizes: Sizes) -> None:
    def counter(unit: str) -> "re.Callable[[re.Match[str]], str | None]":  # type: ignore[name-defined]
        def take(match: re.Match[str]) -> str | None:
            value = read_size(match["value"])
            if value is None or (
                value <= 4 and ((unit == "batch" and "batch" not in match[0]) or match[0].strip().isdigit())
            ):
                return None  # `two matrices` counts operands
            _size(match["value"], sizes)
            if value < 1:
                msg = f"a size of zero makes no problem to time: {match[0].strip()!r}"
                raise Refusal(msg)
            sizes.counts.append(Count(unit, value, match[0].strip()))
            return " "

        return take

    both = rf"(?P<one>{NUMBER}) and (?P<two>{NUMBER}) (?P<unit>elements|entries|values|numbers)\b"
    text.replace(re.compile(both), lambda m: f"{m['one']} {m['unit']} and {m['two']} {m['unit']}")
    value = rf"(?P<value>{NUMBER})"
    row = r"(?:rows?|samples?|lines?)"
    nouns = [w for n in ("vector", "array", "tensor", "buffer") for w in (n, f"{n}s")]
    noun_before = "(?:" + "|".join(rf"(?<=\b{n} )" for n in (*nouns, "matrix", "matrices")) + ")"
    patterns: list[tuple[str, str]] = [
        ("batch", rf"\b(?:batch(?:es)?(?: size)?(?: of| is|:)?|batched)\s+{value}(?: (?:matrices|pairs))?\b"),
        (
            "cols",
            rf"\b(?:each|every) row (?:has|holds|contains|with|having|of|is)\s*(?:length |size )?{value}(?: (?:elements?|values|entries|numbers|columns|classes|logits|features|channels|long))?\b",
        ),
        (
            "cols",
            rf"\b{row} (?:of|with|each of|each with|that are|having)(?: length| size)?\s+{value}(?: (?:elements?|values|entries|numbers|columns|classes|logits|features|channels|long))?(?: each)?\b",
        ),
        (
            "cols",
            rf"\b(?:row length|row size|row width|inner dimension|last dimension|last axis)(?: of| is|:)?\s+{value}\b",
        ),
        (
            "features",
            rf"\b(?:hidden size|hidden dimension|hidden dim|model dimension|model dim|model size|embedding dim|embedding size|embedding dimension|feature dimension)(?: of| is|:|=)?\s*{value}\b",
        ),
    ]
    patterns += [("batch", rf"\b{value} pairs(?= of)")]
    patterns += [
        (
            unit,
            rf"\b{words} ?(?:[:=]|is|are|of)? ?{value}(?= ?[,;)]|\.? ?$| and | with )",
        )
        for unit, words in _BEFORE
    ]
    patterns += [
        (unit, rf"\b(?:some |about |exactly )?{value}\s*{words}(?: each| in total| in all| total)?\b")
        for unit, words in _UNITS
    ]
    patterns += [
        ("features", rf"\b{value} (?:dimensional|d)\b(?= (?:vectors?|embeddings?|features?))"),
        ("length", rf"\b{value} (?:indices|lookups|look ups|ids|index values)\b"),
        (
            "length",
            rf"\b(?:of |with )?(?:the |a )?(?:common |same )?(?:length|size|lengths|sizes|dimension|order|width|n)(?: of| is|:|=| equal to)?\s+{value}(?: each)?\b",
        ),
        ("length", rf"{noun_before}(?:of|with)\s+{value}\b"),
        ("length", rf"\b{value}(?: elements)? long\b"),
        (
            "length",
            rf"\b{value}(?: wide)?(?= (?:float32 |float64 |float16 |bfloat16 |int32 |square )?(?:vectors?|arrays?|matrix|matrices|tensors?)\b)",
        ),
    ]
    for unit, pattern in patterns:
        text.replace(re.compile(pattern), counter(unit))
