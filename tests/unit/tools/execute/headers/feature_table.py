"""Writes docs/cpu_features.md from the kernels that the tests run: `python tests/unit/tools/execute/headers/feature_table.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[5]))
from tests.integration.cpu.fault_classes import CLASSES
from tests.integration.cpu.programs import Case

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[4] / "docs" / "cpu_features.md"

REFUSED = (
    (
        "Thread block clusters, distributed shared memory",
        "`cooperative_groups::this_cluster`, cluster launches",
    ),
    ("Tiles of more than 32 threads", "`cooperative_groups::tiled_partition<64>`"),
    (
        "Tensor-core and TMA instructions in inline PTX",
        "`mma.sync`, `ldmatrix`, `wgmma`, `cp.async.bulk`, `mbarrier`",
    ),
    ("Any other instruction outside the table of `tools/execute/cpu/ptx_table.py`", "named with its line"),
    ("wmma for 4-bit and 1-bit elements", "`nvcuda::wmma::experimental`"),
    (
        "Atomic objects of more than 8 bytes",
        "`cuda::atomic_ref` of a 16-byte type (`atomicCAS` and `atomicExch` run)",
    ),
    ("A heap on the device", "`malloc`, `new`"),
    ("Cooperative launches of more than 16384 threads", '`"cooperative": true` with a large grid'),
    ("A kernel that launches a kernel", "`k<<<1, 32>>>()` in device code"),
    ("Textures, surfaces, `curand_kernel.h`, `cuda/ptx`, `cuda/annotated_ptr`", "named by header or line"),
    ("Hosts that are not x86-64", "`ExecutorUnavailable` at the start, exit code 5"),
    ("mdspan layouts other than `layout_right` and `layout_left`", "`cuda::std::layout_stride`"),
)


def _listed(cases: list[Case], *, faulty: bool) -> str:
    return "; ".join(c.name for c in cases if (c.fault is not None) == faulty)


def render() -> str:
    """Return the page: one row a kernel (its first line says what it shows), then what is refused."""
    lines = [
        "# What the CPU executor runs",
        "",
        "Generated from `tests/unit/tools/execute/headers/kernels/`: each kernel runs there in plain and in check mode with",
        "NumPy's numbers, and NVRTC compiles the same text. Do not edit; run `feature_table.py` beside them. These kernels and",
        "the faults below ran with g++ 11.3, 12.2, 13.3 and 14.2, the last two with glibc 2.41, and so did honest bundles:",
        "142 with 11.3, all at many seeds with 12.2, the library with 13.3, 84 with 14.2.",
        "",
        "| feature | kernel | headers |",
        "|---|---|---|",
    ]
    for path in sorted((HERE / "kernels").glob("*.cu")):
        text = path.read_text(encoding="utf-8")
        title = text.splitlines()[0].removeprefix("// ").rstrip(".")
        headers = " ".join(f"`{line[10:-1]}`" for line in text.splitlines() if line.startswith("#include <"))
        lines.append(f"| {title} | `{path.name}` | {headers or 'none'} |")
    lines += [
        "",
        "## What check mode finds",
        "",
        "From `tests/integration/cpu/fault_classes.py`: each kernel of the second column must be caught with its class and line,",
        "each of the third must pass. Output bytes that nothing writes are named too.",
        "",
        "| class | caught | look-alikes that pass |",
        "|---|---|---|",
        *(
            f"| {name} | {_listed(cases, faulty=True)} | {_listed(cases, faulty=False)} |"
            for name, cases in CLASSES.items()
        ),
        "",
        "## Refused as `unsupported`",
        "",
        "The verdict names the line and the reason; a GPU may run these.",
        "",
    ]
    lines += [
        "| what | for example |",
        "|---|---|",
        *(f"| {what} | {example} |" for what, example in REFUSED),
    ]
    lines += [
        "",
        "## Differences that stay",
        "",
        "- A float beyond an integer's range converts as `cvt.rzi` does (saturated; NaN is 0 or the top bit), in casts and implicit",
        "  conversions alike. Where no cast can be written in its place (an assignment that a macro makes, a bit-field, a conversion",
        "  inside a library's template), a value within the range converts and one beyond it is `unsupported` with its line.",
        "- Local variables lie between guard zones where a pointer to them is made; without them where a `switch` or `goto` passes",
        "  their declaration. A row, or an array within a record, is watched by its own index; through a pointer, the whole is.",
        "- A plain read that races with `atomicCAS` counts as the guess of a loop and is not reported; with other atomics it is.",
        "- Approximate instructions (`ex2.approx`, `hexp`, `__frsqrt_rn` and their like) give the host library's result, not the GPU's last bit.",
        "- `__dadd` to `__fma` with directed rounding are exact, except `__fma_rz/ru/rd` where the product is below 2^-916.",
        "- Tensor-core products add in float in order of k; a GPU's order and truncation differ in the last bits.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
