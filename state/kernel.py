"""The launch plan (`cuda-harness/plan/1`) and the kernel it drives.

A model writes device code and this data, never host code.
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from cuda_harness.state.expr import Expr
from cuda_harness.state.names import DType, Identifier, Short, Tunable
from cuda_harness.state.serde import Document, Model, sha256


class Scratch(Model):
    """A buffer that lives for one run of the plan; its bytes are unspecified at the start."""

    name: Identifier
    dtype: DType
    shape: tuple[Expr, ...] = ()


class CompileOptions(Model):
    """Options that are part of the candidate and of its hash."""

    max_registers: int | None = Field(default=None, ge=16, le=255)
    fast_math: bool = False


class Pick(Model):
    """A pointer chosen by an index: double buffering without host code."""

    pick: tuple[Identifier, ...] = Field(min_length=1)
    index: Expr


class TensorMap(Model):
    """A TMA descriptor (GPU only)."""

    tensor: Identifier
    box: tuple[Expr, ...] = Field(min_length=1, max_length=5)
    swizzle: Literal["none", "32B", "64B", "128B"] = "none"
    l2: Literal["none", "64B", "128B", "256B"] = "none"
    oob: Literal["zero", "nan"] = "zero"


class TensorMapArg(Model):
    """`{"tensor_map": {...}}` as a launch argument."""

    tensor_map: TensorMap


Argument = str | int | Pick | TensorMapArg
"""A tensor, scratch or scalar name, an integer expression (`"n"`, `"n:int32"`), a pick, or a tensor map."""

Grid = tuple[Expr, ...]


class Launch(Model):
    """One kernel launch."""

    launch: Identifier
    grid: Grid = Field(min_length=1, max_length=3)
    block: Grid = Field(min_length=1, max_length=3)
    shared_bytes: Expr = Expr(0)
    args: tuple[Argument, ...] = ()
    cooperative: bool = False
    cluster: Grid | None = Field(default=None, min_length=1, max_length=3)
    when: Expr | None = None

    @field_validator("grid", "block", mode="before")
    @classmethod
    def _scalar_is_one_axis(cls, value: Any) -> Any:  # noqa: ANN401 - models write a bare number for one axis
        return [value] if isinstance(value, (int, str)) else value


FillValue = int | float | Literal["inf", "-inf", "nan", "min", "max"]


class Fill(Model):
    """Set every element of a tensor or scratch buffer to one value of its dtype."""

    fill: Identifier
    value: FillValue
    when: Expr | None = None


class Copy(Model):
    """`[DST, SRC]`: copy one buffer onto another of the same byte size."""

    copy_: tuple[Identifier, Identifier] = Field(alias="copy")
    when: Expr | None = None


class Symbol(Model):
    """Fill an `extern "C" __constant__` array from a tensor."""

    symbol: Identifier
    from_: Identifier = Field(alias="from")
    when: Expr | None = None


class RepeatHead(Model):
    """A loop variable and its count."""

    var: Identifier
    count: Expr


class Repeat(Model):
    """Run steps `count` times with `var` = 0, 1, ..."""

    repeat: RepeatHead
    steps: tuple["PlanStep", ...]
    when: Expr | None = None


class WhileHead(Model):
    """A scratch flag and the most iterations."""

    flag: Identifier
    max: Expr


class While(Model):
    """Run steps until the flag's first element is 0, at most `max` times."""

    while_: WhileHead = Field(alias="while")
    steps: tuple["PlanStep", ...]
    when: Expr | None = None


_STEP_KEYS = ("launch", "fill", "copy", "symbol", "repeat", "while")


def _step_kind(value: Any) -> str | None:  # noqa: ANN401 - pydantic hands over anything
    if isinstance(value, dict):
        found = [key for key in _STEP_KEYS if key in value or f"{key}_" in value]
        return found[0] if len(found) == 1 else None
    return type(value).__name__.lower() if type(value).__name__.lower() in _STEP_KEYS else None


PlanStep = Annotated[
    Annotated[Launch, Tag("launch")]
    | Annotated[Fill, Tag("fill")]
    | Annotated[Copy, Tag("copy")]
    | Annotated[Symbol, Tag("symbol")]
    | Annotated[Repeat, Tag("repeat")]
    | Annotated[While, Tag("while")],
    Discriminator(
        _step_kind,
        custom_error_type="plan_step",
        custom_error_message=f"a step has exactly one of the keys {', '.join(_STEP_KEYS)}",
    ),
]
Repeat.model_rebuild()
While.model_rebuild()


class LaunchPlan(Document):
    """How the kernels of one source are launched, as data."""

    KIND: ClassVar[str] = "cuda-harness/plan/1"

    tunables: dict[Tunable, tuple[int, ...]] = Field(default_factory=dict)
    """Values to choose from; the first is the default."""
    defines: dict[Identifier, Expr] = Field(default_factory=dict)
    """Macros over the dims: recompiled per shape."""
    compile: CompileOptions = CompileOptions()
    scratch: tuple[Scratch, ...] = ()
    steps: tuple[PlanStep, ...] = Field(min_length=1)
    notes: Short = ""

    @field_validator("tunables", mode="before")
    @classmethod
    def _one_value_is_a_list(cls, value: Any) -> Any:  # noqa: ANN401 - models write {"BLOCK": 256}
        if isinstance(value, dict):
            return {k: [v] if isinstance(v, int) else v for k, v in value.items()}
        return value

    @model_validator(mode="after")
    def _names_are_apart(self) -> Self:
        empty = [k for k, v in self.tunables.items() if not v]
        if empty:
            msg = f"tunable {empty[0]!r} has no value"
            raise ValueError(msg)
        names = [*self.tunables, *self.defines, *(s.name for s in self.scratch)]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            msg = f"{twice[0]!r} names two things among tunables, defines and scratch"
            raise ValueError(msg)
        return self

    def default_tunables(self) -> dict[str, int]:
        """Return the first value of each tunable."""
        return {name: values[0] for name, values in self.tunables.items()}


class Kernel(Model):
    """Device code and its plan: what a Coder writes and everyone else judges."""

    source: str = Field(max_length=1 << 20)
    plan: LaunchPlan

    @property
    def sha256(self) -> str:
        """Identity of the candidate: source, plan and with it the compile options."""
        return sha256({"source": self.source, "plan": self.plan})
