"""What an IR and a kernel look like, in the few yes-or-no facts that strategies ask for."""

import re
from dataclasses import dataclass, field
from typing import Literal

from cuda_harness.state.expr import ExprError
from cuda_harness.state.ir import KernelIR, Tensor
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import Profile

IrTrait = Literal[
    "elementwise", "reduction", "row_reduction", "full_reduction", "contraction", "scan", "transpose", "scatter",
    "stencil", "pooling", "several_steps", "small_output", "packable", "two_reductions",
]  # fmt: skip
SourceTrait = Literal[
    "shared", "vector", "shuffle", "atomic", "async", "mma", "bounds", "persistent", "unrolled", "padded",
    "several_launches", "lookback", "row_loops", "ticket",
]  # fmt: skip

_WORDS: tuple[tuple[IrTrait, str], ...] = (
    ("contraction", r"matmul|gemm|matvec|conv|correlat|einsum|bmm|attention"),
    ("scan", r"scan|prefix|cumsum|cumprod|cummax|cummin"),
    ("transpose", r"transpos|permut"),
    ("scatter", r"histogram|scatter|bincount|count|segment|compact"),
    ("stencil", r"stencil|window|laplac|heat|jacobi|median|blur|automaton"),
    ("pooling", r"pool"),
    ("reduction", r"reduc|sum|mean|max|min|softmax|norm|dot|moment|varian|argm|log_sum_exp|prod"),
)
"""Words of an operation's name; formulas with a named index speak for themselves."""
_SOURCE: tuple[tuple[SourceTrait, str], ...] = (
    ("shared", r"\b__shared__\b"),
    ("vector", r"\b(?:float|int|uint|double|half|short|ushort|char|uchar|longlong)[248]\b|\b__half2\b|\b__nv_bfloat162\b"),
    ("shuffle", r"\b__shfl\w*|\b__(?:reduce|match|ballot|any|all)\w*_sync|\bcg::reduce\b"),
    ("atomic", r"\batomic[A-Z]\w*"),
    ("async", r"\b(?:__pipeline_\w+|memcpy_async|cp_async\w*)\b|cp\.async|\bcuda::pipeline\b"),
    ("mma", r"\bwmma\b|\bmma_sync\b|\bmma\.sync|\bwgmma"),
    ("bounds", r"\b__launch_bounds__\b"),
    ("persistent", r"\+=\s*(?:\([^()]*\)\s*)*gridDim\b|gridDim\.x\s*\*\s*blockDim\.x|blockDim\.x\s*\*\s*gridDim\.x"),
    ("unrolled", r"#\s*pragma\s+unroll"),
    ("padded", r"\[\s*\w+\s*\]\s*\[\s*\w+\s*\+\s*1\s*\]"),
    ("lookback", r"look_?back"),
    ("ticket", r"\b__threadfence(?:_system)?\b|thread_fence\b|\batomicInc\b|acq_rel\b"),
    ("row_loops", r"\bfor\s*\("),
)  # fmt: skip


@dataclass(frozen=True)
class Evidence:
    """What is known of the kernel that is to be improved."""

    ir: KernelIR
    ir_traits: frozenset[IrTrait]
    source_traits: frozenset[SourceTrait] = frozenset()
    bound: str = "unknown"
    """Of the profile; the IR's own guess stands in while nothing is measured."""
    metrics: dict[str, float] = field(default_factory=dict)
    launches: int = 1

    def metric(self, name: str) -> float | None:
        """Return the largest value of a metric over the kernels, `None` where it is not known."""
        found = [v for k, v in self.metrics.items() if k == name or k.endswith(f".{name}")]
        return max(found, default=None)

    @property
    def spills(self) -> bool:
        """Whether the compiler says that registers spill."""
        return (self.metric("spill_store_bytes") or 0) + (self.metric("spill_load_bytes") or 0) > 0


def evidence_of(
    ir: KernelIR, kernel: Kernel | None, profile: Profile | None, facts: dict[str, float] | None = None
) -> Evidence:
    """Return the evidence about a kernel: its IR, its text, its profile and what was counted.

    `facts["launches"]`, where it is known, is what the plan launches at the target; else every launch it names counts.
    """
    counted = dict(facts or {})
    if counted.get("blocks") and "barriers" in counted:
        counted["barriers_per_block"] = counted["barriers"] / counted["blocks"]
    known = counted.get("launches")
    launches = int(known) if known is not None else count_launches(kernel) if kernel else 1
    bound = profile.bound if profile is not None and profile.bound != "unknown" else ir.mapping.bound
    return Evidence(
        ir=ir,
        ir_traits=ir_traits(ir),
        source_traits=_kernel_traits(kernel) if kernel else frozenset(),
        bound=bound,
        # Counted at smaller sizes, profiled at the target: a profile's value goes before.
        metrics=counted | (profile.metrics if profile else {}),
        launches=launches,
    )


def ir_traits(ir: KernelIR) -> frozenset[IrTrait]:
    """Return what kind of problem an IR is, by its operations' names and its shapes."""
    found: set[IrTrait] = set()
    text = " ".join(step.op.lower() for step in ir.steps) + " " + ir.name.lower()
    for trait, words in _WORDS:
        if re.search(words, text):
            found.add(trait)
    formulas = [step.formula for step in ir.steps]
    if (
        "reduction" in found
        and all("=" in f and "[" in f for f in formulas)
        and not any(map(_REDUCES.search, formulas))
    ):
        found.discard("reduction")  # a name such as batch_norm speaks of one that was made before
    for formula in formulas:
        found |= _formula_traits(formula)
    largest_in = max((_count(ir, t) for t in ir.inputs), default=0)
    largest_out = max((_count(ir, t) for t in ir.outputs), default=0)
    if largest_out * 8 <= largest_in:
        found.add("small_output")
    if found & {"contraction", "scan", "pooling"}:
        found.discard("reduction")
    if "contraction" in found:
        found.discard("transpose")  # a transposed convolution moves nothing across
    if "reduction" in found:
        found.add("full_reduction" if largest_out <= 16 and largest_in > 16 else "row_reduction")
    if _reduces_twice(ir, text):
        found.add("two_reductions")
    if not found & {"reduction", "contraction", "scan", "transpose", "scatter", "stencil", "pooling"}:
        found.add("elementwise")
    if len(ir.steps) > 1:
        found.add("several_steps")
    if any(t.dtype in _NARROW for t in ir.tensors):
        found.add("packable")
    return frozenset(found)


_TWICE = re.compile(
    r"softmax|log_?sum_?exp|layer_?norm|group_?norm|instance_?norm|varian|\bstd(?:dev)?\b|_std\b|standard_?dev|standardi|cross_?entropy"
)


def _reduces_twice(ir: KernelIR, text: str) -> bool:
    """Return whether data are reduced again with what a first reduction of them gave: a maximum and then a sum, say."""
    if _TWICE.search(text):
        return True
    reducing = [s for s in ir.steps if _REDUCES.search(s.formula)]
    inputs = {t.name for t in ir.inputs}
    return any(
        set(a.writes) & set(b.reads) and set(a.reads) & set(b.reads) & inputs
        for a in reducing
        for b in reducing
        if a is not b
    )


_REDUCES = re.compile(
    r"(?:sum|mean|max|min|prod|argmax|argmin|average|avg|norm|any|all|count)\s*(?:_|\{|over\b)|\bover\b|\u2211|\u03a3|\u220f",
    re.IGNORECASE,
)
"""Anything that may be a reduction in a formula, however it is written."""


_ASSIGNS = re.compile(r"(?<![<>=!])=(?!=)")
"""The sign that separates an output from its formula: no part of a comparison, such as one that bounds an index before."""


def _formula_traits(formula: str) -> set[IrTrait]:
    """Return what a formula with a named reduction index says, whatever its operation is called.

    Factors that carry the index beside different other ones are a product of matrices or vectors.
    """
    left, right = [*_ASSIGNS.split(formula, maxsplit=1), ""][:2]
    reduced = re.search(r"\b(?P<kind>sum|mean|max|min|prod|argmax|argmin)_\{?(?P<index>[a-z]\w*)", right)
    if reduced is None:
        return set()
    indices = {
        tuple(part.strip() for part in inside.split(","))
        for _, inside in re.findall(r"([A-Za-z_]\w*)\[([^\[\]]*)\]", right)
    }
    with_index = {i for i in indices if reduced["index"] in i}
    if reduced["kind"] == "sum" and "[" in left and len(with_index) > 1 and "*" in right:
        return {"contraction"}
    return {"scan"} if _ends_at_its_place(left, right[reduced.start() :], reduced["index"]) else {"reduction"}


def _ends_at_its_place(left: str, reduction: str, index: str) -> bool:
    """Return whether a reduction goes on to the element that it makes: its index is bounded by one of the left side."""
    places = "|".join(set(re.findall(r"[A-Za-z_]\w*", left.partition("[")[2])))
    bounded = rf"\b{index}\s*<=?\s*(?:{places})\b|\^\{{?\s*(?:{places})\s*(?:\}}|\b)|\.\.\s*(?:{places})\b"
    return bool(places) and re.search(bounded, reduction) is not None


_NARROW = frozenset({
    "float32", "int32", "uint32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "float8_e4m3", "float8_e5m2",
})  # fmt: skip
"""Types of which several fit into one 16-byte access."""


def source_traits(source: str, *, launches: int = 1) -> frozenset[SourceTrait]:
    """Return which techniques a kernel's text already uses; comments do not count."""
    from cuda_harness.tools.toolchain.directives import blank_comments

    text = blank_comments(source)
    found: set[SourceTrait] = {trait for trait, pattern in _SOURCE if re.search(pattern, text)}
    if launches > 1:
        found.add("several_launches")
    return frozenset(found)


def _kernel_traits(kernel: Kernel) -> frozenset[SourceTrait]:
    """Return the traits of a kernel's text and of its plan: a grid that asks for the device's size is persistent."""
    found = source_traits(kernel.source, launches=count_launches(kernel))
    asks = re.search(r"\b(?:num_sms|blocks_per_sm)\b", kernel.plan.model_dump_json())
    return found | {"persistent"} if asks else found


def count_launches(kernel: Kernel) -> int:
    """Return how many launches the plan names, loops counted once."""
    from cuda_harness.tools.verify.policy import launches

    return len(list(launches(kernel.plan.steps)))


def _count(ir: KernelIR, tensor: Tensor) -> int:
    count = 1
    try:
        for size in tensor.dims(ir.target_dims):
            count *= size
    except ExprError:
        return 0
    return count
