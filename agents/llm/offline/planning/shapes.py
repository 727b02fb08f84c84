"""From the sizes that were stated to the axes of the arrays; every stated size finds its place or the request is refused."""

from collections.abc import Sequence

from cuda_harness.agents.llm.offline.planning.details import Details
from cuda_harness.agents.llm.offline.planning.recipe import Axis, Recipe
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.sizes import Shape, Size, Sizes

VECTOR = 1 << 20
SIDE = 1024
_NAMES: dict[int, tuple[Axis, ...]] = {
    0: (), 1: (("i", "n"),), 2: (("i", "rows"), ("j", "cols")), 3: (("b", "batch"), ("i", "rows"), ("j", "cols")),
    4: (("b", "batch"), ("c", "channels"), ("i", "rows"), ("j", "cols")),
}  # fmt: skip


class Shaper:
    """Gives axes to arrays, from the stated sizes first and from assumptions last."""

    def __init__(self, recipe: Recipe, sizes: Sizes, details: Details) -> None:
        self.recipe, self.sizes, self.details = recipe, sizes, details
        for said in sizes.suffixed:
            recipe.assume(
                "size", said, "K, M and G are powers of 1024 beside a power of two, and of 1000 else"
            )

    def dim(self, name: str, value: int | None, default: int, *, symbol: str = "") -> str:
        """Declare a dim with its stated value, or with a default that is recorded; return its name."""
        own = symbol or name
        known = self.recipe.dims.get(own)
        if known is not None:
            if value is not None and value != known:
                msg = f"the sizes contradict each other: {own} is both {known} and {value}"
                raise Refusal(msg)
            return own
        if value is None:
            self.recipe.assume(
                f"size {own}", default, "the request names no size; the kernel is right for any"
            )
        self.recipe.dims[own] = default if value is None else value
        return own

    def shapes(self, rank: int | None = None) -> list[Shape]:
        """Return the stated shapes, of one rank if it is given."""
        return [s for s in self.sizes.shapes if rank is None or len(s.sizes) == rank]

    def numbers(self, shape: Shape) -> tuple[int | None, ...]:
        """Return the values of a shape's sizes, `None` for names without one; the shape is used."""
        shape.used = True
        return tuple(self.sizes.value(s) for s in shape.sizes)

    def agree(self, shapes: Sequence[Shape], what: str) -> tuple[int | None, ...]:
        """Return the one shape that all of `shapes` state; two different ones are a contradiction."""
        found: tuple[int | None, ...] = ()
        for shape in shapes:
            own = self.numbers(shape)
            if found and own != found:
                if _volume(own) == _volume(found) and 1 in {len(own), len(found)}:
                    found = max(found, own, key=len)
                    self.recipe.assume(
                        "shape of the output",
                        "as the input",
                        "a flattened copy holds the same elements in order",
                    )
                    continue
                msg = f"the sizes contradict each other: {what} cannot be both {shapes[0].text} and {shape.text}"
                raise Refusal(msg)
            found = found or own
        return found

    def common(self, *, least_rank: int = 1) -> tuple[Axis, ...]:
        """Return the axes of arrays that all have one shape."""
        stated = self.agree(self.shapes(), "arrays of one shape")
        counts = {
            "elements": self.sizes.count("elements"), "length": self.sizes.count("length"), "rows": self.sizes.count("rows", "samples"),
            "cols": self.sizes.count("cols", "classes", "features"), "batch": self.sizes.count("batch"),
        }  # fmt: skip
        channels = self.sizes.count("channels")
        if channels is not None and counts["batch"] is not None and len(stated) == 2:
            stated = (counts["batch"], channels, *stated)
        elif channels is not None:
            self._set(counts, "cols", channels, "channels")
        self._named(counts)
        values = self._square(list(stated), counts, least_rank)
        if not values:
            values = self._by_counts(counts, least_rank)
        batch = counts["batch"]
        if (
            batch is not None
            and len(values) == 2
            and batch not in values
            and (self.details.noun in {"matrix", "tensor"} or self.sizes.batch_of_matrices)
            and self.sizes.shapes
        ):
            values = [batch, *values]
        rank = len(values)
        axes = _NAMES.get(rank) or tuple((f"i{k}", f"d{k}") for k in range(rank))
        self._check(values, counts, rank)
        default = VECTOR if rank == 1 else (SIDE if rank == 2 else 64)
        for (_, name), value in zip(axes, values, strict=True):
            self.dim(name, value, default)
        return axes

    def _named(self, counts: dict[str, int | None]) -> None:
        """Take sizes given by name (`n = 1000`, `rows = 4, cols = 8`, `M=64, N=128`) into the counts."""
        names = self.sizes.named
        own = {"rows": "rows", "cols": "cols", "batch": "batch", "features": "cols", "hidden": "cols", "hidden_dim": "cols",
               "classes": "cols", "channels": "cols"}  # fmt: skip
        shaped = {s for shape in self.sizes.shapes for s in shape.sizes if isinstance(s, str)}
        letters = [n for n in names if n not in own and n not in shaped]
        for name in names:
            if name in own:
                self._set(counts, own[name], names[name], name)
        if len(letters) == 1:
            self._set(counts, "length", names[letters[0]], letters[0])
        elif len(letters) == 2 and not self.sizes.shapes:
            order = sorted(letters) if set(letters) == {"m", "n"} else letters
            for unit, name in zip(("rows", "cols"), order, strict=True):
                self._set(counts, unit, names[name], name)

    def _set(self, counts: dict[str, int | None], unit: str, value: int, name: str) -> None:
        known = counts[unit]
        if known is not None and known != value:
            msg = f"the sizes contradict each other: {name} = {value}, and {known} {unit} elsewhere"
            raise Refusal(msg)
        counts[unit] = value
        if name in self.sizes.named:
            self.sizes.used_names.add(name)

    def _square(
        self, values: list[int | None], counts: dict[str, int | None], least_rank: int
    ) -> list[int | None]:
        length = counts["length"]
        if values or length is None:
            return values
        matrix = self.details.noun == "matrix" or least_rank == 2
        if matrix and counts["rows"] is None and counts["cols"] is None:
            if "square" not in self.details.flags:
                self.recipe.assume("shape", f"{length} x {length}", "one size is given for a matrix")
            return [length, length]
        if matrix or counts["rows"] is not None:
            return [counts["rows"], counts["cols"] or length]
        return [length]

    def _by_counts(self, counts: dict[str, int | None], least_rank: int) -> list[int | None]:
        rows, cols, batch = counts["rows"], counts["cols"], counts["batch"]
        lone = rows is not None and cols is None and batch is None and not self.sizes.count("rows")
        if lone and least_rank < 2 and self.details.noun != "matrix" and self.details.axis in {None, "all"}:
            return [rows]
        if batch is not None and rows is not None and cols is not None:
            return [batch, rows, cols]
        if (
            cols is not None
            and rows is None
            and batch is None
            and least_rank < 2
            and self.details.noun != "matrix"
            and self.details.axis is None
        ):
            return [cols]
        if rows is not None or cols is not None or batch is not None:
            return [rows if rows is not None else batch, cols]
        if counts["elements"] is not None and self.details.noun != "matrix" and least_rank < 2:
            return [counts["elements"]]
        if least_rank >= 2 or self.details.noun == "matrix" or self.details.axis not in {None, "all", 0}:
            return [None] * max(2, least_rank)
        return [None]

    def _check(self, values: Sequence[int | None], counts: dict[str, int | None], rank: int) -> None:
        elements = counts["elements"]
        volume = _volume(values)
        if elements is not None and volume is not None and elements not in {volume, values[-1]}:
            msg = f"the sizes contradict each other: {elements} elements, but {' x '.join(map(str, values))} are {volume}"
            raise Refusal(msg)
        if elements is not None and volume is None:
            msg = f"{elements} elements are stated, but not how they are laid out in {rank} axes"
            raise Refusal(msg)
        places: dict[str, Size] = {"rows": rank - 2, "cols": rank - 1, "batch": 0}
        for unit, place in places.items():
            stated = counts[unit]
            if stated is None:
                continue
            index = int(place)
            if rank == 1 and unit == "cols":
                index = 0
            if (unit == "cols" and counts["batch"] is None and rank == 4) or (rank == 1 and unit == "rows"):
                index = 1 if rank == 4 else 0
            if index < 0 or (values[index] is not None and values[index] != stated):
                shown = " x ".join("?" if v is None else str(v) for v in values)
                msg = f"the sizes contradict each other: {stated} {unit}, but the shape is {shown}"
                raise Refusal(msg)
        length = counts["length"]
        if length is not None and length not in {v for v in values if v is not None} | {volume}:
            msg = f"the sizes contradict each other: a length of {length}, but {' x '.join('?' if v is None else str(v) for v in values)}"
            raise Refusal(msg)


def _volume(values: Sequence[int | None]) -> int | None:
    product = 1
    for value in values:
        if value is None:
            return None
        product *= value
    return product
