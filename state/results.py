"""What was measured: compile results, verdicts, timings, profiles. Unknown is `None`, never a sentinel."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, computed_field, model_validator

from cuda_harness.state.serde import Document, Model

Status = Literal["passed", "failed", "not_measured"]
Outcome = Literal["accepted", "rejected", "undecided"]
StageName = Literal[
    "parse", "policy", "compile", "launch_config", "tiny", "shapes", "values", "target", "repeat", "sanitizer"
]
STAGES: tuple[StageName, ...] = (
    "parse", "policy", "compile", "launch_config", "tiny", "shapes", "values", "target", "repeat", "sanitizer",
)  # fmt: skip
"""The ladder, cheapest and most telling first."""
REQUIRED: tuple[StageName, ...] = (
    "parse", "policy", "compile", "launch_config", "shapes", "values", "target", "repeat",
)  # fmt: skip
"""Stages that must have passed for `accepted`."""

CandidateFault = Literal[
    "parse", "policy", "compile", "launch_config", "timeout", "crash", "out_of_bounds", "uninitialized_read",
    "data_race", "barrier_divergence", "deadlock", "misaligned", "unwritten_output", "input_modified", "mismatch",
    "nonfinite", "nondeterministic", "precision",
]  # fmt: skip
NobodysFault = Literal["oracle", "weak_suite", "resources", "unsupported", "environment"]
FaultClass = CandidateFault | NobodysFault
NOBODYS: frozenset[str] = frozenset({"oracle", "weak_suite", "resources", "unsupported", "environment"})
"""Classes that leave a kernel undecided and cost no repair round."""


class Diagnostic(Model):
    """One message of a compiler about the candidate's own text; `line` counts kernel.cu from 1."""

    severity: Literal["error", "warning", "note"]
    line: int | None
    message: str


class KernelFacts(Model):
    """What ptxas says of one entry."""

    name: str
    registers: int | None = None
    shared_bytes: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    stack_bytes: int | None = None
    barriers: int | None = None
    constant_bytes: int | None = None


class LowPrecision(Model):
    """An instruction that computes in fewer bits than float32, and how often it stands in the code."""

    instruction: str
    count: int
    line: int | None = None
    """Of kernel.cu, the first one; `None` where the code does not say."""


class InstructionMix(Model):
    """What one entry is made of: static counts of PTX instructions, called functions included."""

    kernel: str
    total: int
    global_loads: dict[str, int] = Field(default_factory=dict)
    """Bytes of one access -> instructions."""
    global_stores: dict[str, int] = Field(default_factory=dict)
    fma: int = 0
    mma: int = 0
    """Tensor-core products."""
    barriers: int = 0
    atomics: int = 0
    async_copies: int = 0
    approximate: int = 0
    branches: int = 0
    double: int = 0
    narrowing: int = 0
    """Conversions of float32 or float64 to fewer bits."""
    local: int = 0
    shared: int = 0
    low_precision: tuple[LowPrecision, ...] = ()


class CompileOk(Model):
    """A cubin for `arch`."""

    status: Literal["ok"] = "ok"
    arch: str
    cubin_sha256: str
    cubin_path: str
    kernels: tuple[KernelFacts, ...] = ()
    mixes: tuple[InstructionMix, ...] = ()
    """Empty where the compiler gave no PTX."""
    warnings: tuple[Diagnostic, ...] = ()
    seconds: float
    cached: bool = False


class CompileRejected(Model):
    """The source does not compile; the candidate's own fault."""

    status: Literal["rejected"] = "rejected"
    diagnostics: tuple[Diagnostic, ...] = ()
    log: str = ""
    """Head and tail of the compiler's log, capped; holds no text of any file but the candidate's."""
    seconds: float


class CompileTimedOut(Model):
    """The compiler outlived its deadline, for example by template recursion."""

    status: Literal["timed_out"] = "timed_out"
    seconds: float


class CompileEnvironment(Model):
    """This machine cannot compile it (missing allowed header, broken toolchain); costs no repair round."""

    status: Literal["environment"] = "environment"
    message: str
    remedy: str = ""


CompileResult = Annotated[
    CompileOk | CompileRejected | CompileTimedOut | CompileEnvironment, Field(discriminator="status")
]


class StageResult(Model):
    """One rung of the ladder."""

    name: StageName
    status: Status
    seconds: float = Field(default=0.0, ge=0)
    detail: str = ""
    covered: dict[str, Any] = Field(default_factory=dict)
    """What was exercised: shapes, regimes, seeds, tunables (counts and short lists)."""
    scaled: dict[str, int] | None = None
    """target: the dims that were reduced, with the value used."""


class Failure(Model):
    """Why a kernel is not accepted: a class, one sentence a model can act on, and evidence."""

    stage: StageName
    class_: FaultClass = Field(alias="class")
    message: str
    evidence: dict[str, Any] = Field(default_factory=dict)

    @property
    def is_candidates(self) -> bool:
        """Whether the candidate is to blame (rejected) rather than nobody or we (undecided)."""
        return self.class_ not in NOBODYS


class Verdict(Document):
    """The judgement of one kernel on one executor."""

    KIND: ClassVar[str] = "cuda-harness/verdict/1"

    outcome: Outcome
    executor: str
    target: str | None = None
    verified_for: dict[str, int] | None = None
    """Set when only these fixed sizes were proved."""
    stages: tuple[StageResult, ...] = ()
    failure: Failure | None = None
    kernels: tuple[KernelFacts, ...] = ()
    warnings: tuple[str, ...] = ()
    seed: int | None = None
    sha256: dict[str, str] = Field(default_factory=dict)
    """Hashes of ir, kernel, plan and reference that were judged."""
    suite: dict[str, str] = Field(default_factory=dict)
    """What stands behind the judge, in words: `quorum`, `formulas`, `plants`, `properties`; empty: not asked."""

    @model_validator(mode="before")
    @classmethod
    def _drop_derived(cls, data: Any) -> Any:  # noqa: ANN401 - pydantic hands over anything
        return {k: v for k, v in data.items() if k != "accepted"} if isinstance(data, dict) else data

    @computed_field  # type: ignore[prop-decorator]
    @property
    def accepted(self) -> bool:
        """Whether the outcome is `accepted`."""
        return self.outcome == "accepted"

    def stage(self, name: StageName) -> StageResult | None:
        """Return the stage called `name`, `None` if the ladder never named it."""
        return next((s for s in self.stages if s.name == name), None)


class LibraryTime(Model):
    """The time of a library's operator for the same problem, from a process of its own."""

    name: str
    median_us: float | None = Field(default=None, gt=0)
    ci95_us: tuple[float, float] | None = None
    samples: int = Field(default=0, ge=0)
    version: str = ""
    reason: str = ""
    """Why there is no time."""
    notes: tuple[str, ...] = ()


class Timing(Model):
    """Time of the whole plan on a GPU, in microseconds; `median_us` is for cold caches."""

    median_us: float = Field(gt=0)
    ci95_us: tuple[float, float]
    floor_us: float | None = Field(default=None, gt=0)
    sol_fraction: float | None = Field(default=None, gt=0, le=1)
    baseline: str | None = None
    """What `speedup_vs_baseline` is measured against, by name; both were timed in turns in one process."""
    baseline_sha256: str | None = None
    speedup_vs_baseline: float | None = Field(default=None, gt=0)
    speedup_ci95: tuple[float, float] | None = None
    clock_mhz: float | None = Field(default=None, gt=0)
    """Median SM clock during the timed calls."""
    samples: int = Field(ge=1)
    device: str
    uuid: str | None = None
    cache: Literal["cold", "warm"] = "cold"
    warm_us: float | None = Field(default=None, gt=0)
    """Median with the plan's own data left in L2 by a call just before."""
    graph_us: float | None = Field(default=None, gt=0)
    """Per plan, when replayed back to back from one CUDA graph (warm caches, no launch gaps of the host)."""
    floor_of: Literal["bytes", "flops", "launch"] | None = None
    """Which bound `floor_us` is."""
    compulsory_bytes: int | None = Field(default=None, ge=0)
    """Inputs that matter read once, outputs written once; computed from the tensors."""
    flops: int | None = Field(default=None, ge=0)
    """Operations by the IR's cost."""
    gb_s: float | None = Field(default=None, gt=0)
    """Compulsory bytes over the median, in 10**9 bytes a second."""
    gflop_s: float | None = Field(default=None, gt=0)
    temperature_c: float | None = None
    power_w: float | None = Field(default=None, ge=0)
    throttled: bool | None = None
    """Whether the clock was held down by heat or power in any window; `None`: not known."""
    contended: bool | None = None
    """Whether another process used the device meanwhile; `None`: not known."""
    precision: float | None = Field(default=None, ge=0)
    """Half the 95 % interval over the median."""
    libraries: tuple[LibraryTime, ...] = ()
    """What libraries need for the same problem."""
    notes: tuple[str, ...] = ()


class TimingNotMeasured(Model):
    """No time, and why."""

    status: Literal["not_measured"] = "not_measured"
    reason: str
    rejected: bool = False
    """True: a time was measured and is not believed (below the physical bound, or wrong outputs while timed)."""
    fault: FaultClass | None = None
    """What the kernel did wrong while it was timed; it is then rejected after all."""


Bound = Literal["memory", "compute", "latency", "launch", "occupancy", "unknown"]


class Profile(Model):
    """What bounds the kernel, on which evidence; `rung` says which tool it stands on."""

    rung: Literal["ncu", "cupti", "cubin", "static"]
    bound: Bound
    sentence: str
    metrics: dict[str, float] = Field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    """The figures that decided `bound`, each with its unit."""
    headroom: float | None = Field(default=None, ge=1)
    """How many times faster the floor is than the measured median."""
    roofline: dict[str, float] = Field(default_factory=dict)
    """`flops_per_byte`, `ridge_flops_per_byte`, `gflop_s`, `gb_s`, `peak_gflop_s`, `peak_gb_s`, where known."""
    performance_score: float | None = Field(default=None, ge=0)
    """CUDABench's Performance-Score, by its own formula from counters in base units."""
    reason: str = ""
    """Why the profile stands on no higher rung."""


class Against(Model):
    """A second kernel, timed in turns with the first."""

    bundle: str
    verdict: Verdict
    median_us: float | None = Field(default=None, gt=0)
    ratio: float | None = Field(default=None, gt=0)
    """Its time over that of the first kernel: above 1, the first is faster."""
    ci95: tuple[float, float] | None = None
    significant: bool | None = None
    notes: tuple[str, ...] = ()
    reason: str = ""
    """Why there is no comparison; empty when there is one."""


class ProfileReport(Document):
    """What `profile` prints: the verdict, then time and what bounds it."""

    KIND: ClassVar[str] = "cuda-harness/profile/1"

    bundle: str
    verdict: Verdict
    timing: Timing | TimingNotMeasured | None = None
    profile: Profile | None = None
    against: Against | None = None
    tunables: dict[str, int] | None = None
    """The values that were timed, when they were searched for; else `None`: the plan's defaults."""
    notes: tuple[str, ...] = ()
