"""Test data as data: how inputs are drawn, which cases there are, and what proved the suite."""

from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationError

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.names import Identifier, Short
from cuda_harness.state.results import StageName
from cuda_harness.state.serde import Model, describe

Distribution = Literal[
    "normal", "uniform", "integers", "sorted", "permutation", "one_hot", "choice", "simplex", "positive", "spd",
    "csr_offsets",
]  # fmt: skip
Bound = float | int | str
"""A number, or an integer expression over the dims."""


class InputSpec(Model):
    """How one input is drawn; regimes stay inside a given distribution's domain."""

    distribution: Distribution
    mean: float = 0.0
    std: float = Field(default=1.0, gt=0)
    low: Bound | None = None
    high: Bound | None = None
    """integers: exclusive upper bound; uniform: upper end."""
    values: tuple[float, ...] = ()
    axis: int = -1
    of: Identifier | None = None
    """csr_offsets: the tensor whose length is the number of entries."""
    nnz: Bound | None = None
    """csr_offsets: the number of entries, where no tensor says it."""
    margin: float | None = None


class Inputs(Model):
    """`inputs.json`: a bare mapping from tensor to its distribution."""

    KIND: ClassVar[str] = "cuda-harness/inputs/1"

    specs: dict[Identifier, InputSpec] = Field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Any, *, where: str) -> "Inputs":  # noqa: ANN401 - a JSON value
        """Return the specs of a JSON mapping; `schema` is optional in it.

        Raises:
            ConfigError: If it is no such mapping; every fault is listed.
        """
        if not isinstance(data, dict):
            msg = f"{where} is not a JSON object"
            raise ConfigError(msg, remedy='write {"x": {"distribution": "normal"}}')
        found = data.get("schema", cls.KIND)
        if found != cls.KIND:
            msg = f"{where}: schema {found!r} is not readable here: this version reads {cls.KIND!r}"
            raise ConfigError(msg, remedy="write it in that form")
        try:
            return cls(specs={k: v for k, v in data.items() if k != "schema"})
        except ValidationError as exc:
            msg = f"{where} is not usable:\n" + describe(exc)
            raise ConfigError(msg, remedy="mend the fields named above") from exc


PropertyKind = Literal[
    "rows_sum_to", "permutation_of", "symmetric", "nonnegative", "in_range",
    "linear_in", "homogeneous_in", "shift_invariant_in", "monotone_in", "idempotent",
]  # fmt: skip


class Property(Model):
    """Something that must hold whatever the inputs are; `output` names the output it speaks of.

    rows_sum_to: sums along `axis` are `value` · permutation_of: the same elements as input `tensor` (along `axis`, if
    given) · symmetric: in the last two axes · nonnegative · in_range: within `low` and `high` · linear_in: f(a + b) =
    f(a) + f(b) in `tensor` · homogeneous_in: f(2 a) = 2^degree f(a) · shift_invariant_in: f(a + c) = f(a) for one
    constant c · monotone_in: larger elements of `tensor` give no smaller output · idempotent: the output as input
    `tensor` gives itself.
    """

    kind: PropertyKind
    output: Identifier
    tensor: Identifier | None = None
    axis: int | None = None
    value: float = 1.0
    degree: float = 1.0
    low: float | None = None
    high: float | None = None

    @property
    def words(self) -> str:
        """The property in words."""
        axis = "" if self.axis is None else f" along axis {self.axis}"
        texts: dict[str, str] = {
            "rows_sum_to": f"sums of {self.output}{axis or ' along axis -1'} are {self.value:g}",
            "permutation_of": f"{self.output} is a permutation of {self.tensor}{axis}",
            "symmetric": f"{self.output} is symmetric",
            "nonnegative": f"{self.output} is not negative",
            "in_range": f"{self.output} lies within {self.low} and {self.high}",
            "linear_in": f"{self.output} is linear in {self.tensor}",
            "homogeneous_in": f"{self.output} is homogeneous in {self.tensor} of degree {self.degree:g}",
            "shift_invariant_in": f"{self.output} does not change when {self.tensor} is shifted by a constant",
            "monotone_in": f"{self.output} grows with {self.tensor}",
            "idempotent": f"{self.output} given as {self.tensor} gives itself",
        }
        return texts[self.kind]


Change = Literal["", "base", "other", "sum", "doubled", "shifted", "raised", "fed"]
"""How the inputs of a case that examines a property differ from those of its base."""


class Case(Model):
    """One question to a kernel: sizes, scalars, regime, seed."""

    id: str
    stage: StageName
    dims: dict[str, int]
    scalars: dict[str, float | int | bool] = Field(default_factory=dict)
    regime: str = "normal"
    seed: int = 0
    change: Change = ""
    changed: str = ""
    """The input that `change` speaks of; for `fed`, as `input:output`."""


class Plant(Model):
    """A wrong output that the suite was asked to reject."""

    name: str
    rejected: bool
    detail: Short = ""


class SuiteProof(Model):
    """What happened when the suite was judged."""

    passed: bool
    plants: tuple[Plant, ...] = ()
    skipped: dict[str, str] = Field(default_factory=dict)
    honest: dict[str, bool] = Field(default_factory=dict)
    """Honest emulations that were accepted."""
    votes: dict[str, str] = Field(default_factory=dict)
    """What else speaks for the reference: `loops`, `formulas`, `properties`, each in words."""


class SuiteSummary(Model):
    """What the graph's state holds of a suite; the suite itself lies in the run's folder."""

    reference_sha256: str
    loops_sha256: str | None = None
    quorum: Literal["agreed", "not_measured"] = "not_measured"
    proof: SuiteProof | None = None
    properties: tuple[Short, ...] = ()
