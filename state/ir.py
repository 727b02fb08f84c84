"""The intermediate representation between words and kernel (`cuda-harness/ir/1`).

The graph of its steps is checked with networkx in `tools.ir`; here are the fields and their local rules.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from cuda_harness.state.expr import Expr
from cuda_harness.state.names import FLOATS, DType, Identifier, Short
from cuda_harness.state.serde import Document, Model


class Dim(Model):
    """One free size of the problem; `value` is the target that is timed."""

    name: Identifier
    value: int = Field(ge=0, lt=1 << 62)
    min: int = Field(default=1, ge=0)
    max: int | None = Field(default=None, ge=0)
    multiple_of: int = Field(default=1, ge=1)
    power_of_two: bool = False
    fixed: bool = False
    """True: the kernel need not be right for any other value."""

    def admits(self, n: int) -> bool:
        """Return whether a kernel must be right for size `n` (constraints between dims apart)."""
        if self.fixed:
            return n == self.value
        if n < self.min or (self.max is not None and n > self.max) or n % self.multiple_of:
            return False
        return not self.power_of_two or n == 0 or n & (n - 1) == 0

    @model_validator(mode="after")
    def _target_is_admitted(self) -> Self:
        if self.max is not None and self.max < self.min:
            msg = f"dim {self.name!r}: max {self.max} is below min {self.min}"
            raise ValueError(msg)
        if not self.admits(self.value):
            msg = (
                f"dim {self.name!r}: its own value {self.value} breaks min, max, multiple_of or power_of_two"
            )
            raise ValueError(msg)
        return self


class Compare(Model):
    """How one output is compared with the truth."""

    mode: Literal["close", "exact", "packed_u8", "index", "set"] = "close"
    rtol: float | None = Field(default=None, ge=0)
    """`None`: derived from dtype, accumulation and reduction length."""
    atol: float | None = Field(default=None, ge=0)
    reduction_length: Expr | None = None
    max_step: int = Field(default=1, ge=0)
    """packed_u8: the largest difference of one byte."""
    of: Identifier | None = None
    """index: the tensor whose values the indices name."""
    axis: int | None = None
    """index: the axis of `of` that the indices run over; `None`: the last, or the flat array when the output is one element."""
    ties: Literal["lowest", "any"] = "lowest"


class Tensor(Model):
    """A dense row-major array; `[]` is one element."""

    name: Identifier
    role: Literal["in", "out", "inout"]
    dtype: DType
    shape: tuple[Expr, ...] = ()
    compare: Compare | None = None
    unused: bool = False
    """An input that must not matter."""
    description: Short = ""

    def dims(self, env: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape in elements for the dim values of `env`; raises ExprError."""
        return tuple(e.evaluate(env) for e in self.shape)


class Intermediate(Model):
    """A value between two steps; it need not exist in memory."""

    name: Identifier
    dtype: DType
    shape: tuple[Expr, ...] = ()


class Scalar(Model):
    """A number passed by value; varied within [low, high] in tests unless `fixed`."""

    name: Identifier
    dtype: DType
    value: float | int | bool
    fixed: bool = False
    low: float | int | None = None
    high: float | int | None = None
    source: Literal["stated", "assumed"] = "stated"
    why: Short = ""

    @model_validator(mode="after")
    def _range_holds_value(self) -> Self:
        if self.low is not None and self.high is not None and self.low > self.high:
            msg = f"scalar {self.name!r}: low {self.low} is above high {self.high}"
            raise ValueError(msg)
        if self.dtype not in FLOATS and self.dtype != "bool" and float(self.value) != int(self.value):
            msg = f"scalar {self.name!r} of dtype {self.dtype} cannot be {self.value}"
            raise ValueError(msg)
        return self


class Step(Model):
    """One operation of the data-flow graph."""

    id: Short
    op: Short
    reads: tuple[Identifier, ...] = ()
    writes: tuple[Identifier, ...] = Field(min_length=1)
    formula: Short = ""


class Numerics(Model):
    """What arithmetic is allowed."""

    precision: Literal["strict", "allow_tf32", "allow_half"] = "strict"
    nonfinite: Literal["forbid", "propagate"] = "forbid"
    deterministic: bool = False
    fast_math: bool = False


class Cost(Model):
    """Work at given dims: floating-point operations, and bytes that must cross memory at least once."""

    flops: Expr = Expr(0)
    bytes: Expr = Expr(0)


class MappingHint(Model):
    """A hint how the work maps to the machine; extra keys are kept as they are."""

    model_config = ConfigDict(extra="allow")

    notes: Short = ""
    bound: Literal["memory", "compute", "latency", "launch", "unknown"] = "unknown"


class Reading(Model):
    """One way to understand what the request left open."""

    value: Short
    consequence: Short = ""
    """What the kernel would do differently."""


class Assumption(Model):
    """A choice the request left open."""

    what: Short
    value: Short = ""
    why: Short = ""
    readings: tuple[Reading, ...] = Field(default=(), max_length=4)
    """Two or three ways to understand an ambiguous request, the chosen one among them; empty where it is a mere default."""

    @field_validator("value", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:  # noqa: ANN401 - models write numbers as well
        return str(value) if isinstance(value, (int, float, bool)) else value


class KernelIR(Document):
    """What is to be computed, for which sizes, and how exactly."""

    KIND: ClassVar[str] = "cuda-harness/ir/1"

    name: Identifier
    summary: Short = ""
    dims: tuple[Dim, ...] = ()
    constraints: tuple[Expr, ...] = ()
    tensors: tuple[Tensor, ...] = Field(min_length=1)
    intermediates: tuple[Intermediate, ...] = ()
    scalars: tuple[Scalar, ...] = ()
    steps: tuple[Step, ...] = ()
    edge_rules: tuple[Short, ...] = ()
    numerics: Numerics = Numerics()
    cost: Cost = Cost()
    mapping: MappingHint = MappingHint()
    assumptions: tuple[Assumption, ...] = ()

    @property
    def target_dims(self) -> dict[str, int]:
        """The sizes that are timed."""
        return {d.name: d.value for d in self.dims}

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Tensors whose contents are given (`in` and `inout`), in IR order."""
        return tuple(t for t in self.tensors if t.role != "out")

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Tensors that are compared (`out` and `inout`), in IR order."""
        return tuple(t for t in self.tensors if t.role != "in")

    def tensor(self, name: str) -> Tensor:
        """Return the tensor called `name`; raises KeyError."""
        for t in self.tensors:
            if t.name == name:
                return t
        raise KeyError(name)

    def scalar(self, name: str) -> Scalar:
        """Return the scalar called `name`; raises KeyError."""
        for s in self.scalars:
            if s.name == name:
                return s
        raise KeyError(name)

    def admits(self, dims: Mapping[str, int]) -> bool:
        """Return whether a kernel must be right at these sizes: every dim's own rule and every constraint holds."""
        return all(d.admits(dims[d.name]) for d in self.dims) and all(
            c.evaluate(dims) for c in self.constraints
        )

    @model_validator(mode="after")
    def _one_namespace(self) -> Self:
        seen: dict[str, str] = {}
        groups = (("dim", self.dims), ("tensor", self.tensors), ("intermediate", self.intermediates),
                  ("scalar", self.scalars))  # fmt: skip
        for kind, group in groups:
            for item in group:
                if item.name in seen:
                    msg = (
                        f"{kind} {item.name!r} has the name of a {seen[item.name]}: names share one namespace"
                    )
                    raise ValueError(msg)
                seen[item.name] = kind
        ids = [s.id for s in self.steps]
        if len(set(ids)) != len(ids):
            msg = f"step ids repeat: {sorted({i for i in ids if ids.count(i) > 1})}"
            raise ValueError(msg)
        if not self.outputs:
            msg = "no tensor has role 'out' or 'inout': the kernel would compute nothing"
            raise ValueError(msg)
        return self
