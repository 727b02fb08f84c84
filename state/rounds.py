"""Rounds of branches: what each branch is to try, how it ended, and what its kernel was worth against the base."""

from typing import Literal, Self

from pydantic import Field, model_validator

from cuda_harness.state.budget import Stop
from cuda_harness.state.names import Short
from cuda_harness.state.serde import Model


class BranchPlan(Model):
    """One idea on one parent, with attempt ids of its own: branches that run at once never share one."""

    name: str = Field(pattern=r"^[a-z0-9_-]{1,32}$")
    """Unique in the run, for example `r1b2`; part of the reply's file name."""
    parent: int
    strategy: str
    idea: Short = ""
    """What to change, and nothing else."""
    expectation: Short = ""
    """What should move, and by how much."""
    gain: float | None = Field(default=None, gt=0)
    """Expected speed-up."""
    why: Short = ""
    """Why it applies to the parent."""
    skills: tuple[str, ...] = ()
    by: Literal["rules", "model"] = "rules"
    first: int = Field(ge=0)
    last: int = Field(ge=0)
    """Attempt ids of the branch, both ends included."""

    @model_validator(mode="after")
    def _block_is_after_its_parent(self) -> Self:
        if not self.parent < self.first <= self.last:
            msg = f"branch {self.name!r} has attempts {self.first}..{self.last} after parent {self.parent}"
            raise ValueError(msg)
        return self

    def owns(self, attempt: int) -> bool:
        """Return whether an attempt id belongs to this branch."""
        return self.first <= attempt <= self.last


class BranchEnd(Model):
    """Why a branch ended before its idea was judged; the other ends follow from its attempts."""

    reason: Literal["refused", "stopped", "not_applicable"]
    """`not_applicable`: the author says that the idea does not apply to its parent; it is not proposed again."""
    detail: Short = ""
    stop: Stop | None = None
    """Set when what ended the branch ends the whole run: a spent budget, a missing tool, Ctrl-C."""


class Contest(Model):
    """A challenger against the base, as it was decided."""

    base: int
    challenger: int
    basis: Literal["time", "counts"]
    """`counts`: time was not measured, and what the compiler and the executor count was compared."""
    ratio: float | None = Field(default=None, gt=0)
    """Time of the base over time of the challenger, interleaved; above 1 the challenger is faster."""
    ci95: tuple[float, float] | None = None
    better: bool
    reason: Short
    seed: int | None = None


class Round(Model):
    """One round of branches, settled when `reason` is set.

    One without branches stands where a search that had come to its end was taken up again.
    """

    number: int = Field(ge=1)
    base: int
    """Attempt that the branches started from."""
    branches: tuple[BranchPlan, ...] = ()
    contests: tuple[Contest, ...] = ()
    winner: int | None = None
    """The new base, `None` when no branch cleared the old one."""
    reason: Short = ""
    final: Contest | None = None
    """Set at the end of the search: the last winner and the kernel that it replaced, timed anew on a fresh seed."""

    @property
    def base_after(self) -> int:
        """The base that the next round starts from, or that is delivered."""
        if self.final is not None:
            return self.final.challenger if self.final.better else self.final.base
        return self.base if self.winner is None else self.winner


def merge_rounds(old: dict[int, Round], new: dict[int, Round]) -> dict[int, Round]:
    """Return both by number, the newer record winning; only the Evolver writes them."""
    return dict(sorted({**old, **new}.items()))


def merge_ends(old: dict[str, BranchEnd], new: dict[str, BranchEnd]) -> dict[str, BranchEnd]:
    """Return both by branch; order-free, since each branch ends once and under its own name."""
    return dict(sorted({**old, **new}.items()))
