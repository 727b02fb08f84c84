"""A request to an IR: by its formulas where it has any, by its words else; where it has both they must mean the same."""

import re
from typing import Any

from pydantic import ValidationError

from cuda_harness.agents.llm.offline.planning.declared import check_interface, split_outputs
from cuda_harness.agents.llm.offline.planning.equal import same_computation
from cuda_harness.agents.llm.offline.planning.formula_plan import FormulaPlanner
from cuda_harness.agents.llm.offline.planning.formulas import Formulas, find_formulas, take_sizes, take_values
from cuda_harness.agents.llm.offline.planning.piecewise import with_cases
from cuda_harness.agents.llm.offline.planning.recipe import Recipe
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.remarks import without_names, without_remarks
from cuda_harness.agents.llm.offline.planning.words import (
    Reading,
    assume_dtype,
    build_words,
    check_operands,
    ir_name,
    names_operation,
    plan_words,
    read_words,
)
from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.formula.binding import Problem
from cuda_harness.tools.formula.nodes import Access, Name, walk
from cuda_harness.tools.formula.parse import FormulaError

DESCRIPTIVE = frozenset({"fma", "axpy", "axpby", "combine", "scal", "copy", "fill", "gather"})
"""Words that only name what a formula does; they need not be compared with it."""


def plan(request: str) -> dict[str, Any]:
    """Return the IR of a request.

    Raises:
        Refusal: If it is beyond the templates, or contradicts itself.
        FormulaError: If a formula in it is not of the language.
    """
    said = request
    request, declared = split_outputs(request)
    request = product_in_words(with_cases(without_remarks(without_names(layouts_in_words(request)))))
    request = _SIDE_BY_SIDE.sub("] * ", request)
    try:
        data = _plan(request)
        data["summary"] = " ".join(said.split())[:400]
        KernelIR.model_validate(data)
    except ValidationError as exc:
        msg = "; ".join(str(e["msg"]).removeprefix("Value error, ") for e in exc.errors()[:2])
        raise Refusal(msg) from exc
    check_interface(data, declared)
    return data


def _plan(request: str) -> dict[str, Any]:
    formulas = find_formulas(request)
    if not formulas.statements:
        return plan_words(request)
    names = frozenset(_names(formulas) | {"scalars", "constants", "coefficients", "coefficient", "arguments"})
    take_values(formulas)
    take_sizes(formulas)
    formulas.rest = _without_names(formulas)
    reading = read_words(formulas.rest, known=names)
    by_formula = _plan_formulas(reading, formulas, request)
    if not reading.order:
        return by_formula
    return _agreed(reading, by_formula, formulas, request, names)


_SIDE_BY_SIDE = re.compile(r"\]\s+(?=[A-Za-z]\w*\[)")
"""`P[q,k] V[k,d]`: two factors side by side."""
_LAYOUTS = re.compile(
    r"(?i)\b(?:permut(?:e|es|ing)|convert(?:s|ing)?|transpos(?:e|es|ing)|reorder(?:s|ing)?|rearrang(?:e|es|ing)|chang(?:e|es|ing))\b"
    r"(?P<what>[^.;]*?)\b(?:from )?(?P<old>nchw|nhwc)\b(?P<more>[^.;]*?)\b(?:in)?to (?:an? )?(?P<new>nchw|nhwc)\b(?: layout| format| order)?"
)


def layouts_in_words(request: str) -> str:
    """Return the request with `permute an NCHW tensor to NHWC` said as a formula."""

    def say(match: re.Match[str]) -> str:
        old, new = match["old"].lower(), match["new"].lower()
        if old == new:
            return match[0]
        left, right = (",".join(layout) for layout in (new, old))
        return f"y[{left}] = x[{right}] with {match['what']} {match['more']} "

    return _LAYOUTS.sub(say, request)


_EQUATION = re.compile(
    r"(?<![\w\])])(?P<out>[A-Za-z]\w?)\s*=\s*(?P<a>[A-Za-z])(?P<at>\s*\^\s*T|\.T|')?\s*(?P<op>@|\*|\u00b7|\s)\s*(?P<b>[A-Za-z])(?P<bt>\s*\^\s*T|\.T|')?(?=\s*$|[.,;:)]|\s+(?:with|for|where|of|in|and|on|using|over)\b|\s*\+\s*bias\b)"
)


def product_in_words(request: str) -> str:
    """Return the request with `C = A @ B` said in words.

    `A * B` and `A x` are read so only where the text speaks of matrices and not of elements.
    """
    spoken = re.search(r"(?i)matri|matmul|gemm|gemv|matvec", request) is not None
    elementwise = re.search(r"(?i)element|hadamard|pointwise", request) is not None

    names = r"(?i)matrix[ -](?:matrix |vector )?(?:product|multipl)|matmul|gem[mv]\b|matvec"

    def affine(match: re.Match[str]) -> str:
        words = "" if re.search(names, request) else " matrix-vector product "
        return words + (", then add a bias " if match["b"] else "")

    def turned(match: re.Match[str]) -> str:
        words = "" if re.search(names, request) else " matrix multiplication "
        side = "first" if match["at"] else "second"
        return f"{words} with the {side} matrix transposed "

    def say(match: re.Match[str]) -> str:
        turned_capitals = (match["at"] or match["bt"]) and (match["a"] + match["b"]).isupper()
        if match["op"] != "@" and not turned_capitals and (not spoken or elementwise):
            return match[0]
        named = re.search(names, request) is not None
        vector = match["b"].islower() and match["a"].isupper()
        words = "" if named else (" matrix-vector product " if vector else " matrix multiplication ")
        if match["at"]:
            words += " with the first matrix transposed "
        if match["bt"]:
            words += " with the second matrix transposed "
        return words

    request = _TURNED.sub(r" transpose ", request)
    request = _ROW_TIMES.sub(lambda _m: " vector matrix product ", request)
    request = _FACTORS.sub(turned, request)
    request = _PAIR.sub(r"\1 @ \2", request)
    request = _AFFINE.sub(affine, request)
    request = _GRAM.sub(" Gram matrix ", request)
    return _EQUATION.sub(say, request)


_T = r"(?:\s*\^\s*T\b|\.T\b)"
_TURNED = re.compile(
    rf"(?<![\w\])])[A-Z]\s*=\s*[A-Z]{_T}(?=\s*$|[.,;:)]|\s+(?:with|for|where|of|in|and|on|using)\b)"
)
"""`B = A^T`."""
_ROW_TIMES = re.compile(
    rf"(?<![\w\])=])(?<!=\s)[a-z]{_T}\s*[@*]?\s*[A-Z](?=\s*$|[.,;:)]|\s+(?:with|for|where|of|in|and|on|using)\b)"
)
"""`x^T A`."""
_FACTORS = re.compile(
    rf"(?<![\w\])=])(?<!=\s)(?P<a>[A-Z])(?:(?P<at>{_T})\s*[@*]?\s*(?!(?P=a)\b)(?P<b>[A-Z])|\s+(?!(?P=a)\b)(?P<c>[A-Z])(?P<bt>{_T}))(?=\s*$|[.,;:)]|\s+(?:with|for|where|of|in|and|on|using)\b)"
)
"""`A^T B` or `A B^T` with no result named."""
_PAIR = re.compile(r"(?<![\w\])])([A-Z]\s*=\s*[A-Z])([A-Z])(?![\w\[(])")
"""`C = AB`: capital letters side by side are matrices."""
_AFFINE = re.compile(
    r"(?<![\w\])])[a-z]\s*=\s*[A-Z]\s?[a-z](?P<b>\s*\+\s*[a-z])?(?=\s*$|[.,;:)]|\s+(?:with|for|where|of|in|and|on|using|over)\b)"
)
"""`y = Wx + b`: a matrix has a capital letter, a vector a small one."""
_GRAM = re.compile(
    r"(?<![\w\])])(?:[A-Z]\w?\s*=\s*)?(?P<x>[A-Z])\s*(?:\^\s*T|\.T)\s*[*@]?\s*(?P=x)(?![\w\[(^]|\.\w)"
)
"""`A^T A`."""


def _names(formulas: Formulas) -> set[str]:
    """Return the names in the formulas, in lower case: the text around them may use them."""
    found = {s.target for s in formulas.statements} | {i for s in formulas.statements for i in s.indices}
    for statement in formulas.statements:
        found |= {n.name for n in walk(statement.value) if isinstance(n, Access | Name)}
    return {n.lower() for n in found}


def _without_names(formulas: Formulas) -> str:
    """Return the text around the formulas without the longer names of their inputs: there they are names, not operations."""
    targets = {s.target for s in formulas.statements}
    inputs = {
        n.name for s in formulas.statements for n in walk(s.value) if isinstance(n, Access | Name)
    } - targets
    text = formulas.rest
    title = re.match(r"\s*(?P<title>[A-Za-z][\w -]{0,40}?)\s*:(?=\s)", text)
    if title is not None and re.search(r"\d", title["title"]) is None and not names_operation(title["title"]):
        text = text[title.end() :]  # a title of the formula's own, which says what it is
    for name in sorted(n for n in inputs if len(n) > 2 and n.lower() not in _KEPT):
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w])(?!\s*(?:=|is|of)\s*[-+.\d])", " ", text)
    return text


_KEPT = frozenset({"alpha", "beta", "gamma", "delta", "eps", "epsilon", "slope", "scale", "lambda_"})
"""Names that may carry a value in the text."""


def _plan_formulas(reading: Reading, formulas: Formulas, request: str) -> dict[str, Any]:
    recipe = Recipe(reading.details.dtype, fixed=reading.details.fixed)
    assume_dtype(recipe, reading.details)
    planner = FormulaPlanner(recipe, reading.sizes, reading.details, formulas, reading.rest)
    planner.plan()
    if reading.details.counted:
        check_operands(recipe, reading.details)
    left = reading.sizes.left_over()
    unused = sorted(
        set(reading.details.parameters) - planner.used - {s["name"].lower() for s in recipe.scalars}
    )
    if (left or unused) and not reading.order:
        msg = f"there is no place for {', '.join(repr(w) for w in [*left, *unused][:4])} in the formula"
        raise Refusal(msg)
    recipe.assume("smallest size", 1, "an empty array is not mentioned")
    named = [s.name for s in reading.order if s.name.isidentifier()] or ["formula"]
    data = recipe.ir(name=ir_name(named), summary=" ".join(request.split()))
    Problem(KernelIR.model_validate(data))  # the formulas fit the shapes, or FormulaError says why not
    return data


def _agreed(
    reading: Reading, by_formula: dict[str, Any], formulas: Formulas, request: str, names: frozenset[str]
) -> dict[str, Any]:
    """Return the plan by the words when the formula says the same, which is then the stabler of the two."""
    said = ", ".join(repr(s.text) for s in reading.order)
    try:
        again = read_words(formulas.rest, known=names)
        if max(len(t["shape"]) for t in by_formula["tensors"]) == 2:
            again.details.noun = (
                again.details.noun or "matrix"
            )  # the formula shows how many axes the words mean
        by_words = build_words(again, request)
    except (Refusal, FormulaError) as exc:
        if all(s.name in DESCRIPTIVE or s.kind in {"both", "binary", "scalar"} for s in reading.order):
            return by_formula
        msg = f"its words ({said}) and its formula could not be brought together: {exc}"
        raise Refusal(msg) from exc
    same = same_computation(by_words, by_formula)
    if same:
        by_words["assumptions"].append(
            {"what": "formula", "value": "means the same as the words", "why": "tried on small inputs"}
        )
        inout = any(t["role"] == "inout" for t in (*by_formula["tensors"], *by_words["tensors"]))
        return by_formula if inout or not _needs_care(reading) else by_words
    msg = f"its words ({said}) and its formula do not mean the same here; leave one of them out"
    raise Refusal(msg)


def _needs_care(reading: Reading) -> bool:
    """Whether the words name something whose plain formula is less stable than the plan by words."""
    return any(
        s.kind not in {"both", "binary", "scalar", "product", "reduce", "transpose", "copy", "blas"}
        for s in reading.order
    )
