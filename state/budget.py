"""Limits of a run and what it has spent; unknown is `None`, and is never added up as zero."""

from typing import Literal, Self

from pydantic import Field, model_validator

from cuda_harness.state.serde import Model

DEFAULT_ROUNDS = 3


class Price(Model):
    """Money for a million tokens, set by the user for one model."""

    input_usd_per_million: float = Field(ge=0)
    output_usd_per_million: float = Field(ge=0)


class Budget(Model):
    """What a run may spend; `None` means no limit of that kind."""

    max_calls: int | None = Field(default=60, ge=0)
    max_tokens: int | None = Field(default=None, ge=0)
    max_usd: float | None = Field(default=None, ge=0)
    max_seconds: float | None = Field(default=None, gt=0)
    max_gpu_seconds: float | None = Field(default=None, gt=0)
    repairs: int = Field(default=6, ge=0)
    """Correctness: failed kernels that may be repaired before the design is given up."""
    redesigns: int = Field(default=1, ge=0)
    """Correctness: new designs from the IR after that."""
    rounds: int | None = Field(default=None, ge=0, le=100)
    """Performance: rounds of branches after the first verified kernel. `None`: `DEFAULT_ROUNDS` where time is
    measured, none where it is not, since a kernel that cannot be timed is rarely worth the calls."""
    branches: int = Field(default=2, ge=1, le=16)
    """Performance: ideas tried in one round."""
    branch_repairs: int = Field(default=2, ge=0)
    """Performance: failed kernels of one branch that may be repaired before its idea is given up."""
    patience: int = Field(default=2, ge=1)
    """Performance: rounds without a significant gain after which the search stops."""

    target_sol_fraction: float = Field(default=0.95, gt=0, le=1)
    """Performance: the search is over at this fraction of the speed of light."""
    target_speedup: float | None = Field(default=None, gt=0)
    """Performance: the search is over at this speed-up over the first verified kernel."""

    def rounds_when(self, *, timed: bool) -> int:
        """Return how many rounds may follow a verified kernel."""
        if self.rounds is not None:
            return self.rounds
        return DEFAULT_ROUNDS if timed else 0

    @property
    def attempts_per_branch(self) -> int:
        """Ids that a branch reserves: its kernel, its repairs, and one with other numbers for its tunables."""
        return self.branch_repairs + 2

    @property
    def max_attempts(self) -> int:
        """The most kernels a run can hold under this budget."""
        correctness = (self.redesigns + 1) * (self.repairs + 1)
        return correctness + self.rounds_when(timed=True) * self.branches * self.attempts_per_branch

    @property
    def recursion_limit(self) -> int:
        """Upper bound of graph steps, of the run and of a branch: each attempt passes a handful of nodes once."""
        return 24 + 5 * self.max_attempts


class Usage(Model):
    """Tokens of one reply as the provider reported them."""

    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)


class Spend(Model):
    """What a run has spent; derived from the journal of replies, so a resumed run counts nothing twice."""

    calls: int = Field(default=0, ge=0)
    input_tokens: int | None = Field(default=0, ge=0)
    """`None` once a reply came without usage."""
    output_tokens: int | None = Field(default=0, ge=0)
    usd: float | None = Field(default=None, ge=0)
    """`None` unless prices are set and every usage is known."""
    seconds: float = Field(default=0.0, ge=0)
    gpu_seconds: float | None = Field(default=0.0, ge=0)
    """Seconds that GPU processes worked; 0 on a CPU, `None` where an executor of the caller's own does not count them."""


StopReason = Literal[
    "verified", "target_reached", "no_gain", "strategies_exhausted", "budget", "interrupted", "refused",
    "no_correct_kernel", "oracle", "weak_suite", "environment", "model_failed",
]  # fmt: skip


class Stop(Model):
    """Why the run ended."""

    reason: StopReason
    detail: str = ""

    @model_validator(mode="after")
    def _short(self) -> Self:
        if len(self.detail) > 8_000:
            msg = "a stop's detail is a sentence, not a log"
            raise ValueError(msg)
        return self
