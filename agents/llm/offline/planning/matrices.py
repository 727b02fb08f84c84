"""Products of matrices and vectors: which sizes belong to which operand, and what must agree."""

import re

from cuda_harness.agents.llm.offline.planning.recipe import Axis, Recipe
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.shapes import SIDE, Shaper
from cuda_harness.agents.llm.offline.planning.stages import Stage
from cuda_harness.tools.formula.nodes import Access, Binary, Name, Reduce


def transposed_operands(text: str) -> tuple[bool, bool]:
    """Return whether the words say that the first and the second operand come transposed."""
    first = r"(?:\ba\^t\b|\ba transposed?\b|transposed?(?: of)?(?: the)?(?: matrix)? a\b|(?:first|left)(?: matrix| operand| input| one)?(?: is)?(?: stored| given)? transposed|transposed? (?:of )?(?:the )?(?:first|left)|\ba'|with a transposed)"
    second = r"(?:\bb\^t\b|\bb(?: is)?(?: stored| given)? transposed?\b|transposed?(?: of)?(?: the)?(?: matrix)? b\b|(?:second|right)(?: matrix| operand| input| one)?(?: is)?(?: stored| given)? transposed|transposed? (?:of )?(?:the )?(?:second|right)|\bb')"
    return bool(re.search(first, text)), bool(re.search(second, text))


def build_product(
    recipe: Recipe, shaper: Shaper, stage: Stage, *, transposed: tuple[bool, bool], bias: bool
) -> None:
    """Make the product of a stage the recipe's current value."""
    match stage.name:
        case "dot":
            _dot(recipe, shaper)
        case "outer":
            _outer(recipe, shaper)
        case "matvec" | "vecmat":
            _with_vector(
                recipe, shaper, left=stage.name == "vecmat", transposed=transposed[0] or transposed[1]
            )
        case "linear":
            _linear(recipe, shaper, bias=bias)
        case "gram":
            _gram(recipe, shaper)
        case _:
            _matrices(recipe, shaper, batched=stage.name == "batched", transposed=transposed)


def _named(shaper: Shaper, name: str) -> int | None:
    if name in shaper.sizes.named:
        shaper.sizes.used_names.add(name)
        return shaper.sizes.named[name]
    return None


def _matrices(recipe: Recipe, shaper: Shaper, *, batched: bool, transposed: tuple[bool, bool]) -> None:
    ranks = [3, 2] if batched else [2]
    stated = [shaper.numbers(s) for s in shaper.sizes.shapes if len(s.sizes) in ranks]
    batch = shaper.sizes.count("batch")
    named_batch = _named(shaper, "b") if batched else None
    batch = (
        batch if batch is not None else (named_batch if named_batch is not None else _named(shaper, "batch"))
    )
    cubes = [s for s in shaper.sizes.shapes if len(s.sizes) == 3] if not batched and not stated else []
    if len(cubes) == 1 and len(set(cubes[0].sizes)) == 1:
        stated = [shaper.numbers(cubes[0])[:2]]  # `gemm 256x256x256`: m, n and k, in whatever order
    if any(len(s) == 3 for s in stated):
        batches = {s[0] for s in stated if len(s) == 3} | ({batch} if batch is not None else set())
        if len(batches) > 1:
            msg = f"the sizes contradict each other: the batch is {' and '.join(map(str, sorted(b or 0 for b in batches)))}"
            raise Refusal(msg)
        batch = batches.pop()
        stated = [s[-2:] for s in stated]
    length = shaper.sizes.count("length")
    lone = [n for n in ("n",) if n in shaper.sizes.named and not {"m", "k"} & set(shaper.sizes.named)]
    if length is None and lone and not stated:
        length = _named(shaper, lone[0])
    if length is None and not stated and "square" in shaper.details.flags:
        length = shaper.sizes.count("rows", "cols")
    if not stated and length is not None:
        stated = [(length, length)]
    m, k, n = _mkn(shaper, stated, transposed)
    names: tuple[Axis, ...] = (
        ("i", shaper.dim("m", m, SIDE)),
        ("j", shaper.dim("n", n, SIDE)),
        ("k", shaper.dim("k", k, SIDE)),
    )
    i, j, inner = names
    head: tuple[Axis, ...] = ()
    if batched:
        head = (("b", shaper.dim("batch", batch, 16)),)
    left = recipe.input("a", (*head, *((inner, i) if transposed[0] else (i, inner))))
    second = "w" if batched else "b"  # `b` is the index of the batch
    right = recipe.input(second, (*head, *((j, inner) if transposed[1] else (inner, j))))
    recipe.axes = (*head, i, j)
    recipe.value = Reduce("sum", ("k",), Binary("*", left, right))


def _mkn(
    shaper: Shaper, stated: list[tuple[int | None, ...]], transposed: tuple[bool, bool]
) -> tuple[int | None, int | None, int | None]:
    m, n, k = (_named(shaper, letter) for letter in "mnk")

    def meet(name: str, known: int | None, value: int | None) -> int | None:
        if known is not None and value is not None and known != value:
            msg = f"the sizes contradict each other: {name} is both {known} and {value}"
            raise Refusal(msg)
        return known if known is not None else value

    if len(stated) > 3:
        msg = "more than three matrix shapes are stated for one product"
        raise Refusal(msg)
    if len(stated) >= 1:
        a = stated[0][::-1] if transposed[0] else stated[0]
        m, k = meet("the number of rows of the first matrix", m, a[0]), meet("the inner size", k, a[1])
    if len(stated) >= 2:
        b = stated[1][::-1] if transposed[1] else stated[1]
        k = meet("the inner size (columns of the first matrix, rows of the second)", k, b[0])
        n = meet("the number of columns of the second matrix", n, b[1])
    if len(stated) == 3:
        m, n = (
            meet("the number of rows of the result", m, stated[2][0]),
            meet("the number of columns of the result", n, stated[2][1]),
        )
    if len(stated) == 1:
        if m != k and n is None:
            msg = f"one shape ({m} x {k}) is stated for two matrices that cannot both have it; state both"
            raise Refusal(msg)
        n = n if n is not None else k
    return m, k, n


def _with_vector(recipe: Recipe, shaper: Shaper, *, left: bool, transposed: bool) -> None:
    stated = [shaper.numbers(s) for s in shaper.shapes(2)]
    lengths = [shaper.numbers(s)[0] for s in shaper.shapes(1)]
    rows, cols = shaper.sizes.count("rows", "samples"), shaper.sizes.count("cols", "features", "channels")
    named = {
        "rows": _named(shaper, "m") or _named(shaper, "rows"),
        "cols": _named(shaper, "n") or _named(shaper, "cols"),
    }
    length = shaper.sizes.count("length", "elements")
    if named["rows"] is None and named["cols"] is not None and not stated:
        length, named["cols"] = named["cols"], None
    found: list[tuple[int | None, int | None]] = [
        (rows, cols),
        (named["rows"], named["cols"]),
        *((s[0], s[1]) for s in stated),
    ]
    m = _one({r for r, _ in found if r is not None}, "the number of rows")
    n = _one({c for _, c in found if c is not None}, "the number of columns")
    over_rows = left != transposed  # x A and A^T x both add up along the rows of A
    for given in [length, *lengths]:
        if given is None:
            continue
        if m is None and n is None and not lengths:
            m = n = given
        elif over_rows:
            m = _one(
                {v for v in (m, given) if v is not None},
                "the length of the vector and the rows of the matrix",
            )
        else:
            n = _one(
                {v for v in (n, given) if v is not None},
                "the length of the vector and the columns of the matrix",
            )
    i, j = ("i", shaper.dim("rows", m, 4096)), ("j", shaper.dim("cols", n, 4096))
    if left:
        x = recipe.input("x", (i,))
        a = recipe.input("a", (i, j))
        recipe.axes, recipe.value = (j,), Reduce("sum", ("i",), Binary("*", x, a))
        return
    a = recipe.input("a", (i, j))
    if transposed:
        x = recipe.input("x", (i,))
        recipe.axes, recipe.value = (j,), Reduce("sum", ("i",), Binary("*", a, x))
    else:
        x = recipe.input("x", (j,))
        recipe.axes, recipe.value = (i,), Reduce("sum", ("j",), Binary("*", a, x))


def _one(values: set[int], what: str) -> int | None:
    if len(values) > 1:
        msg = (
            f"the sizes contradict each other: {what} cannot be both {' and '.join(map(str, sorted(values)))}"
        )
        raise Refusal(msg)
    return next(iter(values), None)


def _dot(recipe: Recipe, shaper: Shaper) -> None:
    axes = shaper.common()
    x, y = recipe.input("x", axes), recipe.input("y", axes)
    axis = shaper.details.axis
    inner = (
        axes if len(axes) == 1 or axis in {None, "all"} else ((axes[-2],) if axis in {-2, 0} else (axes[-1],))
    )
    if len(axes) > 1 and axis is None:
        recipe.assume("axis", "all elements", "the request names no axis")
    recipe.axes = tuple(a for a in axes if a not in inner)
    recipe.value = Reduce("sum", tuple(v for v, _ in inner), Binary("*", x, y))


def _outer(recipe: Recipe, shaper: Shaper) -> None:
    lengths = [shaper.numbers(s)[0] for s in shaper.shapes(1)]
    pairs = [shaper.numbers(s) for s in shaper.shapes(2)]
    counts = [c.value for c in shaper.sizes.counts]
    for count in shaper.sizes.counts:
        count.used = True
    m, n = _named(shaper, "m"), _named(shaper, "n")
    found = lengths or list(counts)
    if pairs:
        m, n = pairs[0]
    elif found:
        m, n = found[0], found[-1]
    elif m is None and n is not None:
        m = n
    i, j = ("i", shaper.dim("m", m, 2048)), ("j", shaper.dim("n", n, 2048))
    x, y = recipe.input("x", (i,)), recipe.input("y", (j,))
    recipe.axes, recipe.value = (i, j), Binary("*", x, y)


def _linear(recipe: Recipe, shaper: Shaper, *, bias: bool) -> None:
    stated = [shaper.numbers(s) for s in shaper.shapes(2)]
    batch = shaper.sizes.count("batch", "rows", "samples")
    if len(stated) > 2:
        msg = "more than two matrix shapes are stated for one linear layer"
        raise Refusal(msg)
    m = stated[0][0] if stated else batch
    k = stated[0][1] if stated else shaper.sizes.count("features", "channels")
    n = None
    if len(stated) == 2:
        if stated[1][1] == k:
            n = stated[1][0]
        else:
            msg = f"the sizes contradict each other: the weight is {stated[1][0]} x {stated[1][1]}, but the inputs have {k} features (weights are outputs x inputs)"
            raise Refusal(msg)
    b, o, i = (
        ("b", shaper.dim("batch", m, 256)),
        ("o", shaper.dim("outputs", n, SIDE)),
        ("i", shaper.dim("inputs", k, SIDE)),
    )
    x, weight = recipe.input("x", (b, i)), recipe.input("w", (o, i))
    recipe.assume(
        "layout of the weight", "outputs x inputs", "the usual convention of linear layers: y = x w^T"
    )
    recipe.axes, recipe.value = (b, o), Reduce("sum", ("i",), Binary("*", x, weight))
    if bias:
        recipe.value = Binary("+", recipe.value, recipe.input("bias", (o,)))


def _gram(recipe: Recipe, shaper: Shaper) -> None:
    axes = shaper.common(least_rank=2)
    if len(axes) != 2:
        msg = "a Gram matrix is made of one matrix"
        raise Refusal(msg)
    (_, rows), (_, cols) = axes
    recipe.input("x", (("k", rows), ("i", cols)))
    recipe.assume("Gram matrix", "x^T x", "the usual meaning")
    recipe.axes = (("i", cols), ("j", cols))
    left, right = (Access("x", (Name("k"), Name(v))) for v in ("i", "j"))
    recipe.value = Reduce("sum", ("k",), Binary("*", left, right))
