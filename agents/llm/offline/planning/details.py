"""Dtype, axis, operands and parameters of a request."""

import re
from dataclasses import dataclass, field
from typing import Literal

from cuda_harness.agents.llm.offline.planning.marked import Marked
from cuda_harness.agents.llm.offline.planning.numbers import REAL
from cuda_harness.agents.llm.offline.planning.refusal import Refusal

_DTYPES: tuple[tuple[str, str], ...] = (
    ("bfloat16", r"bfloat16|bf16|brain floats?(?: ?16)?"),
    ("float16", r"float16|fp16|half precision|half floats?|16 bit floats?|16 bit floating point|__half|halfs?|f16"),
    ("float64", r"float64|fp64|double precision|doubles?|64 bit floats?|64 bit floating point|f64"),
    ("float32", r"float32|fp32|single precision|32 bit floats?|32 bit floating point|ieee single|singles?|f32|floats|float(?= ?(?:vector|array|matrix|tensor|values?|numbers?|elements?|data|inputs?))"),
    ("int32", r"int32|i32|32 bit (?:signed )?integers?|signed integers?|integers?|ints?"),
    ("int64", r"int64|i64|64 bit (?:signed )?integers?|long integers?|longs"),
    ("int16", r"int16|16 bit (?:signed )?integers?|shorts"), ("int8", r"int8|8 bit (?:signed )?integers?|signed bytes"),
    ("uint8", r"uint8|unsigned bytes?|bytes|8 bit unsigned integers?"), ("uint32", r"uint32|unsigned (?:32 bit )?integers?|unsigned ints?"),
    ("uint64", r"uint64"), ("uint16", r"uint16"),
)  # fmt: skip
_UNSUPPORTED = r"(?:float8|fp8|e4m3|e5m2|float8_\w+|complex\d*|tf32|int4|fp4|float128|quad precision|bool(?:ean)?s?|strings?|decimal)"


@dataclass
class Details:
    """What the words say besides operations and sizes."""

    dtype: str = "float32"
    dtype_stated: bool = False
    index_dtype: str = "int32"
    """Type of labels and indices beside floating-point data."""
    axis: int | Literal["all"] | None = None
    """Axis of reductions and softmax; `None`: not stated."""
    axis_text: str = ""
    operands: int | None = None
    """How many arrays go in, where the words say it."""
    counted: bool = False
    """Whether a number word says so (`two vectors`), and not only their names."""
    names: tuple[str, ...] = ()
    """Names of operands, in the order of the operation (`subtract x from y`: y, x)."""
    noun: str = ""
    """vector, matrix or tensor, as the words say."""
    parameters: dict[str, float] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    mixed: str = ""
    """`matrix vector` or `vector matrix`, in the order of the words, when both stand in the text."""
    fixed: bool = False


def read_dtype(text: Marked, details: Details) -> None:
    """Take the element type out of the text; two of them, or one that is not served, are refused."""
    bad = text.take(rf"\b{_UNSUPPORTED}\b")
    if bad:
        msg = f"the element type {bad[0]!r} is not among float32, float64, float16, bfloat16 and the integers"
        raise Refusal(msg)
    found: dict[str, str] = {}
    index_words = re.compile(
        r"\b(?:int32|int64|integer|int)(?= (?:class )?(?:labels?|indices|index|targets|class|token|ids))"
    )
    text.replace(index_words, lambda _m: " ")
    text.replace(
        re.compile(
            r"\b(?:class )?(?:labels?|indices|index|targets)(?: are| of| is)?(?: type)? (?:int32|int64|integers?)\b"
        ),
        lambda m: re.sub(r"(?:int32|int64|integers?)", " ", m[0]),
    )
    text.replace(
        re.compile(
            r"\b(?:accumulat(?:e|es|ing|ion)|sums?)(?: is| are)?(?: kept)? (?:in|with) (?:float32|fp32|single precision)(?: precision)?"
        ),
        lambda _m: " ",
    )
    for dtype, pattern in _DTYPES:
        match = text.take(rf"\b(?:(?:in|as) )?(?:{pattern})(?: precision)?\b")
        while match is not None:
            found.setdefault(dtype, match[0])
            if match[0].endswith("s") and re.search(
                r"\d[kmg]? ?$", text.text[: match.start()]
            ):  # `1000 integers` is a count as well
                text.text = f"{text.text[: match.start()]}elements {text.text[match.start() :]}"
            match = text.take(rf"\b(?:(?:in|as) )?(?:{pattern})(?: precision)?\b")
    if (
        len(found) > 1
        and "float32" in found
        and found["float32"].startswith("float")
        and found["float32"] != "float32"
    ):
        del found["float32"]
    _take_index_type(text, found, details)
    if len(found) > 1:
        msg = f"it names several element types ({', '.join(sorted(found.values()))}); the built-in templates keep one for all arrays"
        raise Refusal(msg)
    if found:
        details.dtype, details.dtype_stated = next(iter(found)), True


def _take_index_type(text: Marked, found: dict[str, str], details: Details) -> None:
    """Take an integer type out of `found` where floats are named as well and the text speaks of labels or indices."""
    whole = [d for d in found if d in {"int32", "int64"}]
    spoken = re.search(r"\b(?:labels?|indices|index|targets?|classes|class|ids)\b", text.text) is not None
    if len(found) == 2 and len(whole) == 1 and spoken:
        details.index_dtype = whole[0]
        del found[whole[0]]


_ROWS = (
    r"(?:(?:of|over|for|in|along|within|across|on|to|from|inside|down) )?(?:each|every|all|the individual|individual) (?:of the )?(?:single |individual |separate )?rows?(?: of| in| separately| independently)?",
    r"(?:per|by) row(?! of)", r"row (?:wise|by row)|rowwise", r"row(?= (?:sums?|means?|max|min|averages?|norms?|variances?|totals?|maxim|minim))",
    r"(?:over|along|across|on|in) (?:the |its )?(?:last|final|innermost|inner|trailing|feature|class|channel|hidden|column) (?:axis|dimension|dim)",
    r"(?:over|along|across|on) (?:the )?(?:features?|classes|hidden dimension|channels)", r"across (?:the )?columns",
    r"(?:over|along|across|on|in)? ?(?:the )?(?:axis|dim|dimension) ?(?:=|:|number)? ?-1", r"of (?:the )?rows", r"(?:each|every) (?:sample|vector|token|example)(?= |$|\.|,)",
)  # fmt: skip
_COLUMNS = (
    r"(?:(?:of|over|for|in|along|within|across|on|to|from|down|inside) )?(?:each|every|all|the individual|individual) (?:of the )?(?:single |individual |separate )?columns?(?: of| in| separately| independently)?",
    r"(?:per|by) column", r"column (?:wise|by column)|columnwise", r"column(?= (?:sums?|means?|max|min|averages?|norms?|variances?|totals?|maxim|minim))",
    r"(?:over|along|across|on|in) (?:the )?row (?:axis|dimension|dim)", r"across (?:the )?rows", r"down (?:the )?columns?",
    r"of (?:the )?columns",
)  # fmt: skip
_COUNTED: tuple[tuple[int, str], ...] = (
    (0, r"(?:over|along|across|on|in) (?:the |its )?(?:first|leading|outer|outermost|batch) (?:axis|dimension|dim)|over (?:the )?batch"),
    (1, r"(?:over|along|across|on|in) (?:the |its )?second (?:axis|dimension|dim)"),
    (2, r"(?:over|along|across|on|in) (?:the |its )?third (?:axis|dimension|dim)"),
)  # fmt: skip
"""Axes that are counted from the front."""
_ALL = (
    r"(?:of|over|across|for|on) (?:all|every)(?: of)?(?: the| its)? (?:elements|entries|values|numbers|items|of it)|(?:(?:of|over|across) )?everything|over all axes|over every element",
    r"(?:of|over|across) (?:an?|the) (?:entire|whole|full|complete)", r"(?:in)?to (?:a |one )?(?:single )?(?:scalar|number|value)(?: output| result)?",
    r"\bglobal(?:ly)?|overall|full(?= (?:sum|reduction|array))|grand",
)  # fmt: skip
_AMBIGUOUS = r"(?:over|along) (?:the )?(?:rows|columns)"
_EITHER_WAY = r"(?:sum|add|total|averag)(?:s|es|e|ing|ming)?(?: up| together)? (?:all )?(?:of )?(?:the )?(?:rows|columns)"
"""Adding the rows gives one row, or one number for each row: nobody can tell."""


def read_axis(text: Marked, details: Details) -> None:
    """Take the axis out of the text; two different ones contradict each other."""
    found: list[tuple[int | str, str]] = []
    either = re.search(rf"\b(?:{_EITHER_WAY})\b", text.text)
    if either is not None:
        msg = f"{either[0]!r} can be read both ways; say 'of each row', 'of each column' or 'axis=1'"
        raise Refusal(msg)
    match = text.take(
        r"\b(?:(?:over|along|across|on|in|for) )?(?:the )?(?:axis|dim|dimension) ?(?:=|:|number)? ?(?P<axis>-?\d)(?!\d| ?(?:x|by)\b)"
    )
    while match is not None:
        found.append((int(match["axis"]), match[0]))
        match = text.take(
            r"\b(?:(?:over|along|across|on|in|for) )?(?:the )?(?:axis|dim|dimension) ?(?:=|:|number)? ?(?P<axis>-?\d)(?!\d| ?(?:x|by)\b)"
        )
    for number, pattern in _COUNTED:
        while (match := text.take(rf"\b(?:{pattern})(?!\w)")) is not None:
            found.append((number, match[0]))
    for axis, patterns in ((-1, _ROWS), (-2, _COLUMNS), ("all", _ALL)):
        for pattern in patterns:
            while (match := text.take(rf"\b(?:{pattern})(?!\w)")) is not None:
                found.append((axis, match[0]))
    unclear = text.take(rf"\b{_AMBIGUOUS}\b")
    if unclear is not None and not found:
        msg = f"{unclear[0]!r} can be read both ways; say 'of each row', 'of each column' or 'axis=1'"
        raise Refusal(msg)
    axes = list(dict.fromkeys(a for a, _ in found))
    if len(axes) > 1 and "all" in axes:
        axes = [a for a in axes if a != "all"] if len(axes) == 2 and _weak_all(found) else axes
    if len(axes) > 1:
        shown = " and ".join(repr(t.strip()) for _, t in found[:3])
        msg = f"it names several axes: {shown}"
        raise Refusal(msg)
    if axes:
        details.axis, details.axis_text = axes[0], found[0][1].strip()  # type: ignore[assignment]


def _weak_all(found: list[tuple[int | str, str]]) -> bool:
    """Whether `all` came only from words that also go with an axis ('of all elements in each row')."""
    return all(
        "elements" in t or "values" in t or "entries" in t or "numbers" in t for a, t in found if a == "all"
    )


_KEYS = {"eps": "eps", "epsilon": "eps", "negative slope": "slope", "slope": "slope", "alpha": "alpha", "beta": "beta", "delta": "delta",
         "lambda": "lambda_", "lambd": "lambda_", "threshold": "threshold", "temperature": "temperature", "margin": "margin"}  # fmt: skip


def read_parameters(text: Marked, details: Details) -> None:
    """Take `eps = 1e-5`, `slope of 0.1` and the like out of the text."""
    keys = "|".join(sorted(_KEYS, key=len, reverse=True))
    pattern = re.compile(
        rf"\b(?:(?:with|and|using|for|where|a|an|the|parameter|constant) )*(?P<key>{keys})(?: (?:parameter|value|constant))?\s*(?:=|:|of|is|equal to|equals|fixed at|set to)?\s*(?P<value>{REAL})(?![\w])(?! ?x )"
    )

    def take(match: re.Match[str]) -> str:
        key, value = _KEYS[match["key"]], float(match["value"])
        if details.parameters.get(key, value) != value:
            msg = f"{match['key']} has two values: {details.parameters[key]:g} and {value:g}"
            raise Refusal(msg)
        details.parameters[key] = value
        return " "

    text.replace(pattern, take)


_COUNT = {"two": 2, "2": 2, "both": 2, "three": 3, "3": 3, "four": 4, "4": 4, "pair of": 2}
_ADJECTIVE = r"(?:(?:input|dense|equal length|equally long|equal sized|same sized|same shape|square|large|long|small|flat|contiguous|given|float|1d|2d|3d|float32|one dimensional|two dimensional|single precision) )*"
_NAME = r"(?:[b-z]\d?|a\d?)"


def read_operands(text: Marked, details: Details) -> None:
    """Take counts, nouns and names of the operands out of the text."""
    match = re.search(
        rf"\b(?P<count>two|three|four|2|3|4|both|pair of) (?:\N{{LEFT WHITE SQUARE BRACKET}}shape\d+\N{{RIGHT WHITE SQUARE BRACKET}} )?{_ADJECTIVE}(?P<noun>vectors|arrays|matrices|tensors|inputs|buffers)\b",
        text.text,
    )
    if match:
        details.operands, details.counted = _COUNT[match["count"]], True
        text.take(
            rf"\b(?:two|three|four|2|3|4|both|pair of)(?= (?:\N{{LEFT WHITE SQUARE BRACKET}}shape\d+\N{{RIGHT WHITE SQUARE BRACKET}} )?{_ADJECTIVE}(?:vectors|arrays|matrices|tensors|inputs|buffers)\b)"
        )
    noun = re.search(r"\b(vector|array|matri(?:x|ces)|tensor|image)", text.text)
    if noun:
        details.noun = {"vector": "vector", "array": "vector", "tensor": "tensor", "image": "matrix"}.get(
            noun[1], "matrix"
        )
    kinds = list(
        dict.fromkeys(
            "matrix" if n.startswith("matri") else "vector"
            for n in re.findall(r"\b(?:vectors?|matrix|matrices)\b", text.text)
        )
    )
    details.mixed = " ".join(kinds) if len(kinds) == 2 else ""
    joined = r"\b(?:vector|matrix|array|tensor)\b[^.,;:]{0,30}?\band (?:an? |the |another )?(?:\w+ )?(?:vector|matrix|array|tensor)\b"
    if details.operands is None and re.search(joined, text.text) is not None:
        details.operands, details.counted = 2, True
    reverse = text.take(
        rf"\bsubtract(?:s|ing)? (?:the )?(?:vector |array |matrix |tensor )?(?P<one>{_NAME}) from (?:the )?(?:vector |array |matrix |tensor )?(?P<two>{_NAME})\b",
        " subtract ",
    )
    if reverse is not None:
        details.names = (reverse["two"], reverse["one"])
        details.operands = 2
    elif (
        text.take(
            r"\bsubtract(?:s|ing)? the second(?: \w+)? from the first(?: one| vector| array| matrix| tensor)?\b",
            " subtract ",
        )
        is not None
    ):
        details.operands = 2
    elif (
        text.take(
            r"\bsubtract(?:s|ing)? the first(?: \w+)? from the second(?: one| vector| array| matrix| tensor)?\b",
            " subtract ",
        )
        is not None
    ):
        details.operands = 2
        details.flags.add("swapped")
    elif (
        text.take(
            r"\bdivid(?:e|es|ing) the first(?: \w+)? by the second(?: one| vector| array| matrix| tensor)?\b",
            " divide ",
        )
        is not None
    ):
        details.operands = 2
    elif (
        text.take(
            r"\bdivid(?:e|es|ing) the second(?: \w+)? by the first(?: one| vector| array| matrix| tensor)?\b",
            " divide ",
        )
        is not None
    ):
        details.operands = 2
        details.flags.add("swapped")
    names = re.search(
        rf"\b(?P<list>{_NAME}(?:, ?{_NAME})*,? (?:and|by|from|minus|to|with) (?:(?:the |another |a )?(?:vector|array|matrix|tensor) )?{_NAME})\b(?! (?:\w+ )?(?:vector|matrix|array|tensor|scalar|number|constant|kernel|relu))",
        text.text,
    )
    if names and not details.names:
        found = re.findall(
            rf"\b{_NAME}\b",
            re.sub(
                r"\b(?:and|by|from|minus|to|with|vector|array|matrix|tensor|the|another)\b|\ba (?=vector|array|matrix|tensor)",
                " ",
                names["list"],
            ),
        )
        if len(found) >= 2 and len(set(found)) == len(found):
            details.names = tuple(found)
            details.operands = details.operands or len(found)
