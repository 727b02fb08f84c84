"""A request in words: what it names is taken out piece by piece; a word that is left over and means something is a refusal."""

import re
from dataclasses import dataclass
from typing import Any

from cuda_harness.agents.llm.offline.planning.build import REDUCING, Builder
from cuda_harness.agents.llm.offline.planning.details import (
    Details,
    read_axis,
    read_dtype,
    read_operands,
    read_parameters,
)
from cuda_harness.agents.llm.offline.planning.filler import PHRASES, STOP_WORDS, unknown_words
from cuda_harness.agents.llm.offline.planning.marked import Marked
from cuda_harness.agents.llm.offline.planning.matrices import transposed_operands
from cuda_harness.agents.llm.offline.planning.numerals import plain_numbers
from cuda_harness.agents.llm.offline.planning.order import order_stages
from cuda_harness.agents.llm.offline.planning.recipe import Recipe
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.rewordings import reword
from cuda_harness.agents.llm.offline.planning.shapes import Shaper
from cuda_harness.agents.llm.offline.planning.sizes import Sizes, read_sizes, take_memory
from cuda_harness.agents.llm.offline.planning.stages import (
    CLOSE,
    OPEN,
    Stage,
    find_early,
    find_stages,
)
from cuda_harness.state.expr import RESERVED
from cuda_harness.state.names import ITEM_BYTES

_FLAGS: tuple[tuple[str, str], ...] = (
    ("tanh_form", r"(?:using |with |by |in )?(?:the |its )?(?:tanh|hyperbolic tangent)(?: based)? (?:approximation|approximate|form|formula|variant)(?: of)?|approximate(?:d)? by tanh|tanh approximated|approximate (?=gelu)|tanh(?= (?:approximate )?gelu)"),
    ("exact", r"exact(?:ly)?,? (?:using|with|via|by) (?:the )?(?:erf|error function)(?: form| formula)?|exact(?:ly)?(?: form| erf form)?(?= gelu|\)|,|$|\.)|\(?(?:exact|erf(?: based)?)(?: form| version| variant)?\)?(?= gelu)|(?:using|with|via) (?:the )?(?:exact )?(?:erf|error function)(?: form| formula)?"),
    ("plain", r"(?:without|no) (?:any )?(?:affine(?: parameters| transform(?:ation)?)?|learnable (?:parameters|affine)|gain(?: and| or| nor)? (?:bias|shift)|scale (?:and|or|nor) (?:shift|bias)|gamma (?:and|or|nor) beta|weights?(?: (?:and|or|nor) bias)?)"),
    ("affine", r"(?:with|using|including|followed by)? ?(?:an? )?(?:learnable |learned )?(?:affine(?: parameters| transform(?:ation)?)?|(?:scale|gain|weight|gamma|gammas)(?: vector)?(?: gamma)?(?:,)? (?:and|&) (?:a )?(?:shift|bias|beta)(?: vector)?(?: beta)?|(?:per channel |per feature )?(?:parameters|weights?) gamma and beta|gamma and beta(?: parameters| vectors)?|gamma, beta)"),
    ("gain", r"(?:with|using|times|and) (?:an? |the )?(?:learnable |learned )?(?:weight|gain|scale|gamma)(?: vector| parameter)?(?: gamma)?(?! ?(?:=|of|and|by))"),
    ("inference", r"(?:in |for |at |during )?(?:inference|evaluation|eval|test)(?: mode| time| only)?|(?:with|using|given|from) (?:the )?(?:running|stored|precomputed|given|fixed) (?:statistics|stats|mean and (?:running )?variance|means and variances|mean,? variance)(?:,? gamma and beta)?|with (?:given|per channel) mean(?:,| and) (?:and )?variance"),
    ("sum_reduction", r"(?:with )?(?:sum|summed) reduction|reduction ?= ?sum|(?:summed|added up) over (?:all|the) (?:elements|samples)"),
    ("mean_reduction", r"(?:with )?(?:mean|average) reduction|reduction ?= ?mean|averaged over (?:all |the )*(?:elements|samples|batch|rows|entries)|(?:mean|average)d?(?= (?:of (?:the )?)?(?:\N{LEFT WHITE SQUARE BRACKET}op|huber|hinge|smooth|binary|bce|cross|kl|log cosh|categorical|sparse))"),
    ("per_element", r"(?:with )?no reduction|without reduction|reduction ?= ?none|per element(?= loss)|unreduced"),
    ("one_hot", r"one hot(?: encoded)?(?: targets| labels)?|(?:probability|soft) (?:targets|labels|distributions as targets)"),
    ("all_pairs", r"all pairs(?: of)?|every pair(?: of)?|between (?:all|every|each) (?:pairs? of )?rows? of .{1,30} and (?:all|every|each) rows? of"),
    ("square", r"square(?= (?:matrix|matrices|float|\N{LEFT WHITE SQUARE BRACKET}shape))"),
    ("index_input", r"(?:(?:given|with|from|and|as|using|for) )?(?:an? |the )?(?:list|array|vector|tensor) of (?:\w+ )?(?:indices|labels|ids|class indices)|(?:with|and|given|using|from|for|against|to) (?:the |an? |true |integer |ground truth )*(?:class )?(?:indices|labels|ids|index array|index vector|class indices|label vector)|integer (?:class )?labels|class (?:indices|labels)|(?:token|row) (?:ids|indices)|integer targets"),
    ("table", r"(?:from|of|in|into|with)? ?(?:an? |the )?(?:embedding |look ?up |weight )?tables?(?: of| with)?"),
    ("pred", r"(?:between|of|from|given|for|over|with) (?:the )?predictions?(?: (?:and|,|versus|vs|against) (?:the )?(?:targets?|labels|ground truth))?|(?:predictions?|predicted values) and (?:targets?|ground truth)|predictions?|targets?|logits"),
    ("distributions", r"(?:between|of|from|for) (?:two )?(?:discrete )?(?:probability )?distributions?(?: p and q)?|p and q"),
    ("unbiased", r"\(?(?:unbiased|sample (?:estimate|version)|corrected|with bessel correction|bessel corrected|ddof ?= ?1|divid(?:ed|ing) by n ?- ?1)\)?"),
    ("in_place", r"in ?place"),
    ("extra_input", r"(?:(?:an?|the) )?(?:other|another|second|third|extra|residual|skip)(?: (?:input|skip|residual))*(?: (?:connection|vector|array|matrix|tensor|input|operand|branch))?"),
)  # fmt: skip
_EARLY = frozenset({"tanh_form", "exact", "square", "plain", "all_pairs", "in_place", "per_element", "sum_reduction",
                    "mean_reduction", "one_hot", "unbiased"})  # fmt: skip
"""Flags whose words would be taken for operations or sizes later on."""
_FIXED = r"(?:only )?for (?:exactly )?(?:this|these|that) (?:exact )?sizes? only|(?:only )?for (?:exactly )?th(?:is|ese) (?:exact |fixed )?(?:sizes?|shapes?)|sizes? (?:is|are) fixed|fixed sizes?"
_SELF: tuple[tuple[str, str], ...] = (
    ("mean", r"(?:subtract(?:s|ing)? (?:the |its )?(?:row|column) means? (?=from (?:an?|the) )from|subtract(?:s|ing)? (?:the |its |their |each row's )?(?:own )?(?:row |column )?means? (?:of (?:each|every) (?:row|column) )?from (?:each|every|all|the)(?: of the)?(?: \w+)?(?: in| of)?(?: the| that| its)?(?: row| rows)?|mean cent(?:er|re)(?:s|ing|ed)?|cent(?:er|re)(?:s|ing)? (?:each|every) (?:row|column) (?:around|about|at|by) (?:its )?(?:zero|mean))"),
    ("max", r"subtract(?:s|ing)? (?:the |its )?(?:own )?(?:row )?max(?:imum)? from (?:each|every) (?:row|element of each row)"),
    ("/sum", r"divid(?:e|es|ing) (?:each|every) (?:row|element of (?:each|a|every) row|column) by (?:its|the|their) (?:own )?(?:row )?(?:sum|total)|normali[sz](?:e|es|ing) (?:each|every) row to sum to (?:one|1)|normali[sz](?:e|es|ing) (?:each|every) row by its sum"),
    ("/max", r"divid(?:e|es|ing) (?:each|every) (?:row|element of (?:each|a|every) row) by (?:its|the) (?:own )?(?:row )?max(?:imum)?"),
)  # fmt: skip


_WHERE = re.compile(r"\b(?:its|their|the|and|corresponding) (?:index|indices|positions?|locations?)\b")


def normal(text: str) -> str:
    """Return the request in lower case, hyphens and underscores inside words as spaces, quotes and markup gone."""
    text = (
        plain_numbers(text)
        .lower()
        .replace("×", " x ")
        .replace("\u2013", "-")
        .replace("\u2014", " , ")
        .replace("\u2212", "-")
        .replace("\u2019", "'")
    )
    text = re.sub(r"(?<=\d)\*\*(?=\d)", "^", text)
    text = re.sub(r"(?<=[a-z])'(?:d|m|ll|ve|re)\b", "", text)
    text = re.sub(r"\b(?:[1-5]|one|two|three|four|five)[- ]?d(?:imensional)?\b", " ", text)
    text = text.replace("²", "^2").replace("³", "^3").replace("→", " to ")
    text = re.sub(r"\|\s*([a-z]\w*)\s*\|", r" absolute value of \1 ", text)
    text = re.sub(r"\*\*(?=\w)([^*]{1,80})\*\*", r" \1 ", text)
    text = re.sub(r"[`\"]+|(?<!\w)'|'(?!\w)", " ", text)
    text = re.sub(r"(?<=[a-z0-9])[-_](?=[a-z])", " ", text)
    text = re.sub(r"(?<!\de)(?<=[a-z])[-_](?=\d)", " ", text)
    text = re.sub(r"'s\b", "", text)
    return re.sub(r"\s+", " ", f" {text} ")


@dataclass
class Reading:
    """A request taken to pieces."""

    details: Details
    sizes: Sizes
    order: list[Stage]
    """Operations in the order of application; empty when none is named."""
    transposed: tuple[bool, bool]
    rest: str
    """What is left of the text, markers in place of what was understood."""
    stages: list[Stage]


def read_words(request: str, *, known: frozenset[str] = frozenset()) -> Reading:
    """Take a request to pieces.

    Args:
        request: The text, formulas taken out.
        known: Further words that need no explanation, such as the names in its formulas.

    Raises:
        Refusal: If a word is unknown, sizes contradict each other, or the operations do not fit together.
    """
    text = Marked(normal(request))
    details = Details()
    _read_names(text)
    reword(text)
    for phrase in PHRASES:
        text.replace(re.compile(rf"(?<!\w)(?:{phrase})(?!\w)"), lambda m: _phrase(m[0], details))
    if text.take(_FIXED) is not None:
        details.fixed = True
    stages: list[Stage] = []
    _read_selves(text, stages)
    find_early(text, stages)
    for flag, pattern in _FLAGS:
        if flag in _EARLY and text.take(rf"(?<!\w)(?:{pattern})(?!\w)") is not None:
            details.flags.add(flag)
    read_parameters(text, details)
    transposed = transposed_operands(text.text)
    memory = take_memory(text)
    read_dtype(text, details)
    sizes = read_sizes(text, memory=memory, item_bytes=ITEM_BYTES[details.dtype])
    read_axis(text, details)
    read_operands(text, details)
    find_stages(text, stages)
    for flag, pattern in _FLAGS:
        while text.take(rf"(?<!\w)(?:{pattern})(?!\w)") is not None:
            details.flags.add(flag)
    plural = r"\belements?\b|\bentr(?:y|ies)\b|\bvalues?\b|each|every|all "
    if len(stages) == 1 and "elementwise" not in details.flags and re.search(plural, text.text) is None:
        details.flags.add("matrix_function")
    if any(s.kind == "product" for s in stages):
        _product_equation(text, stages)
    transposed = _settle_transposes(text, stages, transposed)
    if transposed[0]:
        text.take(r"\b(?:first|left)(?: matrix| operand| input| one)?\b")
    text.replace(re.compile(rf"(?<={CLOSE}) ?\+ ?(?={OPEN})"), lambda _m: " then ")
    _refuse_unknown(text.text, stages, known)
    lost = (
        _WHERE.search(text.text)
        if any(s.kind == "both" and s.name in {"max", "min"} for s in stages)
        else None
    )
    if lost is not None and not any(s.name in {"argmax", "argmin"} for s in stages):
        msg = f"{lost[0]!r} is spoken of beside a value; say 'the maximum and its index' or 'the argmax'"
        raise Refusal(msg)
    return Reading(details, sizes, order_stages(text.text, stages, details), transposed, text.text, stages)


def names_operation(text: str) -> bool:
    """Return whether a few words name an operation of the templates, or bend one."""
    marked = Marked(normal(text))
    stages: list[Stage] = []
    find_early(marked, stages)
    find_stages(marked, stages)
    return bool(stages) or any(w in STOP_WORDS for w in marked.text.split())


def plan_words(request: str) -> dict[str, Any]:
    """Return the IR of a request in words; raises Refusal."""
    return build_words(read_words(request), request)


def build_words(reading: Reading, request: str) -> dict[str, Any]:
    """Return the IR of what was read; raises Refusal."""
    details, sizes, order = reading.details, reading.sizes, reading.order
    if not order:
        msg = "no operation is named that the templates know"
        raise Refusal(msg)
    recipe = Recipe(details.dtype, fixed=details.fixed)
    assume_dtype(recipe, details)
    builder = Builder(recipe, Shaper(recipe, sizes, details), details)
    builder.transposed = reading.transposed
    for stage in order:
        builder.run(stage)
    builder.finish()
    _nothing_left(builder.used, sizes.left_over(), details, order)
    check_operands(recipe, details)
    recipe.assume("smallest size", 1, "an empty array is not mentioned")
    return recipe.ir(name=ir_name(recipe.words), summary=" ".join(request.split()))


def check_operands(recipe: Recipe, details: Details) -> None:
    """Refuse a plan that takes fewer arrays than the request names."""
    taken = sum(t["role"] != "out" for t in recipe.tensors)
    if details.operands is not None and details.operands > taken:
        msg = f"it names {details.operands} arrays, but what was understood of it takes {taken}"
        raise Refusal(msg)


def assume_dtype(recipe: Recipe, details: Details) -> None:
    """Record the element type where the request names none."""
    if not details.dtype_stated:
        recipe.assume("dtype", "float32", "the request names no element type")


def _phrase(phrase: str, details: Details) -> str:
    """Return a blank for a phrase without meaning for the computation, and keep what a few of them say."""
    if "element" in phrase or "wise" in phrase:
        details.flags.add("elementwise")
    if "bias" in phrase:
        details.flags.add("no_bias")
    return " "


def _read_names(text: Marked) -> None:
    """Take `named x`, `called result` out of the text: the names of arrays are ours."""
    text.replace(
        re.compile(r"\b(?:named|called|denoted(?: by| as)?) [a-z_]\w*(?: and [a-z_]\w*(?= |,|\.))?"),
        lambda _m: " ",
    )


def _read_selves(text: Marked, stages: list[Stage]) -> None:
    for name, pattern in _SELF:

        def put(match: re.Match[str], name: str = name) -> str:
            stages.append(Stage("self", name, match[0].strip()))
            row = " each column " if "column" in match[0] else (" each row " if "row" in match[0] else " ")
            return f" \N{LEFT WHITE SQUARE BRACKET}op{len(stages) - 1}\N{RIGHT WHITE SQUARE BRACKET} {row}"

        text.replace(re.compile(rf"\b(?:{pattern})\b"), put)


def _settle_transposes(text: Marked, stages: list[Stage], transposed: tuple[bool, bool]) -> tuple[bool, bool]:
    """Return which operands of a product come transposed; the word is then part of the product, not a stage."""
    products = [
        s for s in stages if s.kind == "product" and s.name in {"matmul", "batched", "matvec", "vecmat"}
    ]
    turns = [n for n, s in enumerate(stages) if s.kind == "transpose"]
    if not products or not turns:
        return transposed if products else (False, False)
    if not any(transposed):
        one = [s for s in products if s.name in {"matvec", "vecmat"}]
        if not one:
            msg = "it is not clear which matrix is transposed; say 'the first' or 'the second matrix transposed'"
            raise Refusal(msg)
        transposed = (True, False)
    for n in turns:
        text.text = text.text.replace(
            f"\N{LEFT WHITE SQUARE BRACKET}op{n}\N{RIGHT WHITE SQUARE BRACKET}", " "
        )
    return transposed


def _product_equation(text: Marked, stages: list[Stage]) -> None:
    """Take `c = a * b`, and `times` between two shapes, out of a request that names the product in words as well."""
    operand = r"(?:[a-z](?: ?\^t)?)"
    text.take(rf"\b[a-z] ?= ?{operand} ?[*@]? ?{operand}(?= |,|\.)")
    text.take(r"(?<=\b[a-z]) ?\^t\b")
    text.take(r"(?<=\b[a-z]) ?\^t\b")
    shape = r"(?:a |an |the )?\N{LEFT WHITE SQUARE BRACKET}shape\d+\N{RIGHT WHITE SQUARE BRACKET}(?: matri(?:x|ces)| vector)?"
    for number, stage in enumerate(stages):
        mark = f"\N{LEFT WHITE SQUARE BRACKET}op{number}\N{RIGHT WHITE SQUARE BRACKET}"
        if stage.kind == "both" and stage.text == "times":
            text.take(
                rf"(?<=\b[a-z]) {mark}(?= [a-z]\b)|(?<={CLOSE}) ?{mark}(?= {shape})|(?<=matrix) {mark}(?= {shape})"
            )


def _refuse_unknown(rest: str, stages: list[Stage], known: frozenset[str]) -> None:
    if any(s.kind in {"layer", "soft"} for s in stages):
        known = known | {
            "normalize",
            "normalise",
            "normalizes",
            "normalises",
            "normalized",
            "normalised",
            "normalizing",
        }
    unknown = [w for w in unknown_words(rest) if w not in known]
    bending = [w for w in re.findall(r"[a-z]+", rest) if w in STOP_WORDS]
    if bending or unknown:
        words = list(dict.fromkeys([*bending, *unknown]))
        shown = ", ".join(repr(w) for w in words[:8])
        more = "" if stages else ", and no operation in it that they know"
        msg = f"these words of it are not understood: {shown}{more}"
        raise Refusal(msg)


def _nothing_left(used: set[str], sizes: list[str], details: Details, order: list[Stage]) -> None:
    if sizes:
        shown = ", ".join(repr(s) for s in sizes[:4])
        msg = f"there is no place for {shown} in what was understood ({', '.join(s.text for s in order)})"
        raise Refusal(msg)
    unused = sorted(set(details.parameters) - used)
    if unused:
        msg = f"there is no place for the parameter {unused[0]!r} in what was understood ({', '.join(s.text for s in order)})"
        raise Refusal(msg)
    takes_axis = REDUCING | {
        "multi",
        "bias",
        "both",
        "soft",
        "layer",
        "scan",
        "loss",
        "rowpair",
        "self",
        "reverse",
    }
    if (
        details.axis is not None
        and not any(s.kind in takes_axis or s.name in {"dot", "iamax"} for s in order)
        and details.axis != "all"
    ):
        msg = f"there is no place for {details.axis_text!r} in what was understood ({', '.join(s.text for s in order)})"
        raise Refusal(msg)
    for flag, kinds in (
        ("tanh_form", {"gelu"}),
        ("plain", {"layer_norm", "rms_norm"}),
        ("one_hot", {"cross_entropy"}),
    ):
        if flag in details.flags and not any(s.name in kinds for s in order):
            msg = f"there is no place for {flag.replace('_', ' ')!r} in what was understood"
            raise Refusal(msg)


def ir_name(words: list[str]) -> str:
    """Return an identifier made of the names of the operations."""
    joined = re.sub(r"\W+", "_", "_".join(words)).strip("_")[:48] or "kernel"
    return joined if joined[0].isalpha() and joined not in RESERVED else f"kernel_{joined}"
