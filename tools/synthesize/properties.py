"""Properties that must hold whatever the inputs are: read, turned into questions, and checked on answers.

A property is a claim of a model about the request. It is put to the reference first; one that the reference violates
is dropped with a note. On a kernel's outputs it is checked within the tolerances of the comparison, so it never
rejects what that accepts: it names the mistake.

Inputs of the metamorphic ones lie on a grid of eighths, so that sums, shifts and doublings are exact in every type.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR, Tensor
from cuda_harness.state.names import FLOATS
from cuda_harness.state.serde import describe
from cuda_harness.state.suite import Case, Change, Inputs, Property
from cuda_harness.tools.execute.dtypes import np_dtype

if TYPE_CHECKING:
    from cuda_harness.tools.synthesize.suite import Answer, Suite

Array = NDArray[Any]
MOST = 12
"""Properties that are looked at."""
METAMORPHIC: dict[str, tuple[Change, ...]] = {
    "linear_in": ("other", "sum"),
    "homogeneous_in": ("doubled",),
    "shift_invariant_in": ("shifted",),
    "monotone_in": ("raised",),
    "idempotent": ("fed",),
}
"""Property -> the changed inputs it needs besides the base."""
_SHIFT = 2.0


def read_properties(ir: KernelIR, specs: Inputs, data: Any) -> tuple[list[Property], list[str]]:  # noqa: ANN401 - a JSON value
    """Return the usable properties of a reply, and why each of the others is not."""
    found: list[Property] = []
    notes: list[str] = []
    if data is None:
        return found, notes
    if not isinstance(data, list):
        return found, ["properties are no list"]
    for item in data[:MOST]:
        try:
            prop = Property.model_validate(item)
        except ValidationError as exc:
            notes.append(f"not a property: {describe(exc)}"[:200])
            continue
        why = _unfit(ir, specs, prop)
        if why is not None:
            notes.append(f"{prop.words}: {why}")
        elif prop not in found:
            found.append(prop)
    return found, notes


def _unfit(ir: KernelIR, specs: Inputs, prop: Property) -> str | None:
    """Return why a property cannot be checked on this IR, `None` when it can."""
    output = next((t for t in ir.outputs if t.name == prop.output), None)
    if output is None:
        return f"{prop.output!r} is no output"
    if prop.kind == "in_range" and prop.low is None and prop.high is None:
        return "it gives neither low nor high"
    if prop.axis is not None and not -len(output.shape) <= prop.axis < len(output.shape):
        return f"{prop.output!r} has no axis {prop.axis}"
    if prop.kind == "rows_sum_to" and not output.shape:
        return f"{prop.output!r} has no axis"
    if prop.kind == "symmetric" and len(output.shape) < 2:
        return f"{prop.output!r} has fewer than two axes"
    if prop.kind == "permutation_of" or prop.kind in METAMORPHIC:
        return _unfit_tensor(ir, specs, prop, output)
    return None


def _unfit_tensor(ir: KernelIR, specs: Inputs, prop: Property, output: Tensor) -> str | None:
    tensor = next((t for t in ir.inputs if t.name == prop.tensor), None)
    if tensor is None:
        return f"{prop.tensor!r} is no input"
    alike = [e.text for e in tensor.shape] == [e.text for e in output.shape] and tensor.dtype == output.dtype
    if prop.kind in {"permutation_of", "idempotent"} and not alike:
        return f"{prop.tensor!r} and {prop.output!r} differ in shape or type"
    if prop.kind in METAMORPHIC and tensor.dtype not in FLOATS:
        return f"{prop.tensor!r} holds no floating-point numbers"
    if prop.kind in METAMORPHIC and output.dtype not in FLOATS and prop.kind != "shift_invariant_in":
        return f"{prop.output!r} holds no floating-point numbers"
    if prop.kind in METAMORPHIC and prop.tensor in specs.specs:
        return f"{prop.tensor!r} has a domain that changed inputs would leave"
    return None


def cases_of(prop: Property, base: Case) -> list[Case]:
    """Return the base and the changed cases that a property needs; only the base where it needs none."""
    cases = [base]
    for change in METAMORPHIC.get(prop.kind, ()):
        name = f"{prop.tensor}:{prop.output}" if change == "fed" else str(prop.tensor)
        update = {"id": f"{base.id}-{change}-{name}", "change": change, "changed": name}
        cases.append(base.model_copy(update=update))
    return cases


def grid(tensor: Tensor, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return eighths within two of zero in the tensor's exact type."""
    return (rng.integers(-16, 17, size=shape) / 8).astype(np_dtype(tensor.dtype))


def changed(case: Case, tensor: Tensor, value: Array, rng: np.random.Generator) -> Array:
    """Return an input of `case` made of the base's `value`; exact in the tensor's type."""
    wide = value.astype(np.float64)
    match case.change:
        case "other":
            wide = grid(tensor, value.shape, rng).astype(np.float64)
        case "sum":
            wide = wide + grid(tensor, value.shape, rng).astype(np.float64)
        case "doubled":
            wide = 2 * wide
        case "shifted":
            wide = wide + _SHIFT
        case "raised":
            more = np.abs(grid(tensor, value.shape, rng).astype(np.float64))
            wide = wide + np.where(rng.random(value.shape) < 0.25, more, 0.0)  # few: what falls must show
        case _:
            return value
    return np.ascontiguousarray(wide.astype(value.dtype))


def violation(
    prop: Property, outputs: Sequence[Array], slack: Sequence[Array], given: Mapping[str, Array]
) -> str | None:
    """Return where outputs violate a property, `None` when they do not.

    Args:
        prop: The property.
        outputs: Its output in the base case and in those of `cases_of`, in that order, shaped.
        slack: By how much each element of each of them may be off, same shapes.
        given: The base case's inputs.
    """
    values = [np.asarray(o).astype(np.float64) for o in outputs]
    if not values[0].size or not all(np.isfinite(v).all() for v in values):
        return None
    base, off = values[0], slack[0]
    match prop.kind:
        case "rows_sum_to":
            axis = -1 if prop.axis is None else prop.axis
            sums, room = base.sum(axis=axis), off.sum(axis=axis)
            return _beyond(prop, np.abs(sums - prop.value) - room, sums, "sum")
        case "permutation_of":
            want = np.asarray(given[str(prop.tensor)]).astype(np.float64)
            a, b = (
                np.sort(
                    x.reshape(-1) if prop.axis is None else x, axis=-1 if prop.axis is None else prop.axis
                )
                for x in (base, want)
            )
            return _beyond(prop, np.abs(a - b) - float(off.max()), a, "element in order")
        case "symmetric" if base.shape[-1] == base.shape[-2]:
            return _beyond(
                prop, np.abs(base - np.swapaxes(base, -1, -2)) - off - np.swapaxes(off, -1, -2), base
            )
        case "nonnegative":
            return _beyond(prop, -base - off, base)
        case "in_range":
            low = -np.inf if prop.low is None else prop.low
            high = np.inf if prop.high is None else prop.high
            return _beyond(prop, np.maximum(low - base, base - high) - off, base)
        case _ if len(values) > 1:
            return _metamorphic(prop, values, slack)
        case _:
            return None


def _metamorphic(prop: Property, values: Sequence[Array], slack: Sequence[Array]) -> str | None:
    base, off = values[0], slack[0]
    match prop.kind:
        case "linear_in":
            error = np.abs(values[2] - values[1] - base) - slack[2] - slack[1] - off
            return _beyond(prop, error, values[2])
        case "homogeneous_in":
            factor = 2.0**prop.degree
            return _beyond(prop, np.abs(values[1] - factor * base) - slack[1] - factor * off, values[1])
        case "monotone_in":
            return _beyond(prop, base - values[1] - slack[1] - off, values[1])
        case _:  # shift_invariant_in, idempotent
            return _beyond(prop, np.abs(values[1] - base) - slack[1] - off, values[1])


def settle(suite: "Suite", properties: Sequence[Property]) -> tuple[tuple[Property, ...], list[str]]:
    """Return the properties that the reference has, and a note on each that it has not.

    Raises:
        ConfigError: If an input cannot be drawn.
    """
    kept: list[Property] = []
    notes: list[str] = []
    for prop in properties:
        broken, asked = None, 0
        for cases in _groups(suite, prop):
            answers = suite.answers(cases)
            if not isinstance(answers, dict) or any(c.id not in answers for c in cases):
                continue  # a reference that fails is named where truths are asked for
            if any(prop.output in answers[c.id].defined for c in cases):
                continue
            asked += 1
            broken = broken or _broken(suite, prop, cases, answers)
        if not asked:
            notes.append(f"{prop.words}: not checked, there is no truth to check it on")
        elif broken:
            notes.append(f"dropped, the reference violates it: {broken}")
        else:
            kept.append(prop)
    return tuple(kept), notes


def _groups(suite: "Suite", prop: Property) -> list[list[Case]]:
    if prop.kind in METAMORPHIC:
        return [cases_of(prop, base) for base in suite.property_bases()]
    return [[c] for c in suite.cases("values")]


def _broken(
    suite: "Suite", prop: Property, cases: Sequence[Case], answers: Mapping[str, "Answer"]
) -> str | None:
    """Return where the truths violate a property by more than float64 rounding."""
    truths = [np.asarray(answers[c.id].arrays[prop.output]).astype(np.float64) for c in cases]
    finite = [t[np.isfinite(t)] for t in truths]
    scale = max((float(np.max(np.abs(f))) for f in finite if f.size), default=0.0)
    unit = float(np.finfo(np.float32).eps) if prop.kind == "idempotent" else 0.0
    coarse = prop.kind == "idempotent" and suite.ir.tensor(prop.output).dtype not in {"float32", "float64"}
    room = (1e-9 + 4 * unit + 0.02 * coarse) * scale
    slack = [np.full(t.shape, room) for t in truths]
    with np.errstate(all="ignore"):
        return violation(prop, truths, slack, suite.inputs(cases[0]))


def second(case: Case, tensor: Tensor) -> np.random.Generator:
    """Return the source of the other grid of a base: the same for every change of it."""
    key = zlib.crc32(f"{tensor.name}:second:{base_id(case)}".encode())
    return np.random.default_rng(np.random.SeedSequence([case.seed, key]))


def base_id(case: Case) -> str:
    """Return the id of the base case that `case` changes."""
    return case.id.removesuffix(f"-{case.change}-{case.changed}")


def write_properties(properties: Sequence[Property]) -> list[dict[str, Any]]:
    """Return properties as JSON values."""
    return [p.model_dump(mode="json", exclude_none=True) for p in properties]


def stored_properties(data: Any, *, where: str) -> tuple[Property, ...]:  # noqa: ANN401 - a JSON value
    """Return what `write_properties` wrote; raises ConfigError."""
    try:
        return tuple(Property.model_validate(item) for item in data)
    except (TypeError, ValidationError) as exc:
        msg = f"{where} holds no properties: {exc}"[:500]
        raise ConfigError(msg, remedy="delete it: the properties are then not checked") from exc


def _beyond(prop: Property, excess: Array, shown: Array, what: str = "") -> str | None:
    """Return the first place with a positive excess, in words."""
    wrong = np.asarray(excess) > 0
    if not wrong.any():
        return None
    index = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    place = f"[{', '.join(map(str, index))}]" if index else ""
    name = f"{what} {place}".strip() if what else f"{prop.output}{place}"
    return f"{prop.words}, but {name} is {float(np.asarray(shown)[index]):.6g}"
