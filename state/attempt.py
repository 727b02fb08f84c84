"""One candidate kernel and what was measured on it; sources and logs live in the run's folder, by hash."""

from typing import Literal

from pydantic import Field

from cuda_harness.state.names import Short
from cuda_harness.state.results import FaultClass, Profile, Timing, TimingNotMeasured, Verdict
from cuda_harness.state.serde import Model

AttemptStatus = Literal["written", "unusable", "rejected", "undecided", "verified"]


class Attempt(Model):
    """A node of the lineage: who its parent is, which one idea it tried, how it was judged."""

    id: int = Field(ge=0)
    parent: int | None = None
    branch: str = "main"
    strategy: str = "first"
    """`first`, `repair`, `redesign`, `tune`, or the name of the optimisation idea."""
    expectation: Short = ""
    """What the idea should move, and by how much."""
    sha256: str | None = None
    """Identity of the kernel (source and plan); `None` when the reply held no kernel."""
    design: str | None = None
    """Identity by tokens and plan: comments, spacing and notes do not count."""
    duplicate_of: int | None = None
    """The earlier attempt that the reply repeated token for token; it is not built again."""
    unusable: Short = ""
    """Why no kernel came out of the reply, after its repair turn."""
    verdict: Verdict | None = None
    timing: Timing | TimingNotMeasured | None = None
    profile: Profile | None = None

    @property
    def status(self) -> AttemptStatus:
        """Where the attempt stands."""
        if self.sha256 is None:
            return "unusable"
        if self.verdict is None:
            return "written"
        if self.verdict.outcome == "accepted":
            return "verified"
        return "rejected" if self.verdict.outcome == "rejected" else "undecided"

    @property
    def failure_class(self) -> FaultClass | None:
        """Class of the failure, `None` when there is none."""
        return self.verdict.failure.class_ if self.verdict and self.verdict.failure else None

    @property
    def median_us(self) -> float | None:
        """Median time in microseconds, `None` until measured."""
        return self.timing.median_us if isinstance(self.timing, Timing) else None


def merge_attempts(old: dict[int, Attempt], new: dict[int, Attempt]) -> dict[int, Attempt]:
    """Return both by id, the newer record of an attempt winning.

    Order-free for branches that run at once: each branch writes attempts of its own.
    """
    return dict(sorted({**old, **new}.items()))
