"""Check mode tells which basic blocks of kernel.cu ran."""

from dataclasses import replace

from tests.integration.cpu.programs import Case, Shape

from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.protocol import JobOk

_BODY = """int i = threadIdx.x;
y[i] = x[i];
if (n > 64) {
  y[i] = x[i] + x[64];
}
for (int k = 0; k + 96 < n; k += 128) {
  y[i] += x[k];
}
"""


def test_lines_that_ran_are_told_from_those_that_did_not(cpu: CpuExecutor) -> None:
    lines: dict[int, set[int]] = {}
    for n in (32, 128):
        case = Case("parts", _BODY, shape=Shape(n=n, grid=(1, 1, 1), block=(32, 1, 1)))
        result = cpu.run(case.job("check"))
        assert isinstance(result, JobOk), result
        assert result.coverage is not None
        # g++ 11 keeps a second block of the loop's line that nothing reaches: a line counts as soon as part of it ran.
        lines[n] = {line for line, _ in result.coverage.places} - {
            line for line, _ in result.coverage.reached
        }
        assert result.coverage.reached <= result.coverage.places
        first = case.job("check").source.splitlines().index("int i = threadIdx.x;") + 1
    assert lines[32] == {first + 3, first + 6}
    assert not lines[128]


def test_a_function_that_nothing_calls_is_no_part_of_the_kernel(cpu: CpuExecutor) -> None:
    job = Case("parts", _BODY, shape=Shape(n=128, grid=(1, 1, 1), block=(32, 1, 1))).job("check")
    unused = "__device__ float unused(float v) { return v > 0 ? v : -v; }\n"
    result = cpu.run(replace(job, source=job.source + unused))
    assert isinstance(result, JobOk), result
    assert result.coverage is not None
    assert not result.coverage.places - result.coverage.reached


def test_plain_mode_observes_nothing(cpu: CpuExecutor) -> None:
    case = Case("plain", _BODY, shape=Shape(n=32, grid=(1, 1, 1), block=(32, 1, 1)))
    result = cpu.run(replace(case.job("plain")))
    assert isinstance(result, JobOk), result
    assert result.coverage is None
