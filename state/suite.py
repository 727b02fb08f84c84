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


class Case(Model):
    """One question to a kernel: sizes, scalars, regime, seed."""

    id: str
    stage: StageName
    dims: dict[str, int]
    scalars: dict[str, float | int | bool] = Field(default_factory=dict)
    regime: str = "normal"
    seed: int = 0


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
