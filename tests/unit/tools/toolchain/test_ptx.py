"""Instruction counts: from PTX as text, and from what NVRTC really makes."""

from pathlib import Path
from typing import Any

import pytest

from cuda_harness.state.results import CompileOk, InstructionMix
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.toolchain.ptx import instruction_mixes

PTX = """
.version 9.0
.target sm_90a
.func  (.param .b32 func_retval0) helper(
	.param .b32 helper_param_0
)
{
	.loc	2 40 7, function_name $L__info_string0, inlined_at 1 11 3
	{ mul.f16 %rs1, %rs2, %rs3;
}
	ret;
}
.visible .entry first(
	.param .u64 first_param_0
)
{
	.reg .pred 	%p<2>;
	.loc	1 7 5
	ld.global.nc.v4.f32 	{%f1, %f2, %f3, %f4}, [%rd1];
	ld.global.u8 	%rs1, [%rd2];
	@%p1 bra 	$L__BB0_2;
	{ .reg .f16 low;
  cvt.rn.f16.f32 low, %f1;
}
	fma.rn.f32 	%f5, %f1, %f2, %f3;
	call.uni (retval0),
	helper,
	(
	param0
	);
	bar.sync 	0;
	st.shared.f32 	[%r1], %f5;
	st.global.v2.f64 	[%rd3], {%fd1, %fd2};
$L__BB0_2:
	ret;
}
.visible .entry second()
{
	.loc	1 20 5
	wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1}, {%r1}, {%r2}, {%f1};
	wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [%rd1], %r5;
	ex2.approx.ftz.f32 	%f6, %f7;
	atom.global.add.f32 	%f8, [%rd4], %f9;
	ret;
}
	.file	1 "/somewhere/kernel.cu"
	.file	2 "/somewhere/cuda_fp16.hpp"
"""


def test_counts_of_each_entry_with_the_functions_it_calls() -> None:
    first, second = instruction_mixes(PTX)

    assert (first.kernel, second.kernel) == ("first", "second")
    assert first.global_loads == {"1": 1, "16": 1}
    assert first.global_stores == {"16": 1}
    assert (first.fma, first.barriers, first.branches, first.shared, first.narrowing) == (1, 1, 1, 1, 1)
    assert [(p.instruction, p.count, p.line) for p in first.low_precision] == [("mul.f16", 1, 11)]
    assert (second.mma, second.atomics, second.approximate) == (1, 1, 1)
    assert [(p.count, p.line) for p in second.low_precision] == [(1, 20)]


@pytest.mark.parametrize(
    "text", ["", "not PTX", "}\n}\n{", ".visible .entry", ".visible .entry k(\n", "\0" * 50]
)
def test_what_is_no_ptx_counts_nothing(text: str) -> None:
    assert instruction_mixes(text) == ()


def mixes(tmp_path: Path, body: str, *, parameters: str = "const float* x, float* y", head: str = "") -> Any:
    compiler = Compiler(cache=tmp_path)
    try:
        source = (
            f'{head}extern "C" __global__ void k({parameters}) {{\n  int i = threadIdx.x;\n  {body}\n}}\n'
        )
        done = compiler.compile(source, arch="sm_90a")
        again = compiler.compile(source, arch="sm_90a")
    finally:
        compiler.close()
    assert isinstance(done, CompileOk), done
    assert isinstance(again, CompileOk)
    assert again.cached
    assert again.mixes == done.mixes
    return done.mixes[0]


HALF = "#include <cuda_fp16.h>\n"
LOW = [
    ("y[i] = x[i] * 2 + expf(x[i]) + sinf(x[i]);", "", []),
    ("__half h = __float2half(x[i]); y[i] = __half2float(h * h);", HALF, ["mul.f16"]),
    ("__half h = __float2half(x[i]); y[i] = __half2float(h);", HALF, []),
    ('unsigned a = 0; float c = 0; asm volatile("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0,%0,%0,%0},{%1,%1},{%1},{%0,%0,%0,%0};" : "+f"(c) : "r"(a)); y[i] = c;',
     "", ["mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "head", "found"), LOW)
def test_nvrtc_says_where_fewer_bits_are_used(tmp_path: Path, body: str, head: str, found: list[str]) -> None:
    mix = mixes(tmp_path, body, head=head)

    assert isinstance(mix, InstructionMix)
    assert [p.instruction for p in mix.low_precision] == found
    assert all(p.line == 3 + bool(head) for p in mix.low_precision)
    assert mix.narrowing == ("__float2half" in body)
    assert mix.total > 5


def test_widths_of_accesses_are_told_apart(tmp_path: Path) -> None:
    wide = mixes(tmp_path, "y[i] = x[i];", parameters="const float4* x, float4* y")

    assert (wide.global_loads, wide.global_stores) == ({"16": 1}, {"16": 1})
