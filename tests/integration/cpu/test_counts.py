"""What check mode counts on request: the numbers that the guide's arithmetic gives."""

from dataclasses import replace

import pytest
from tests.integration.cpu.programs import Case, Shape

from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.protocol import JobOk

_SHAPE = Shape(n=1024, grid=(4, 1, 1), block=(256, 1, 1))
_I = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
_TURN = (
    _I
    + "__shared__ float s[32][WIDTH];\nfor (int k = threadIdx.x / 32; k < 32; k += 8) s[threadIdx.x % 32][k] = x[i];\n"
    "__syncthreads();\ny[i] = s[threadIdx.x / 32][threadIdx.x % 32];"
)
COUNTS = {
    "neighbours": (_I + "y[i] = x[i];", {"global_load_bytes": 4096, "global_load_sectors": 128, "global_store_bytes": 4096, "global_store_sectors": 128, "threads": 1024}),
    "every eighth": (_I + "y[i] = x[i * 8 % 1024];", {"global_load_bytes": 4096, "global_load_sectors": 1024}),
    "one for all": (_I + "y[i] = x[0];", {"global_load_bytes": 4096, "global_load_sectors": 32}),
    "vectors": (_I + "if (i < 256) reinterpret_cast<float4*>(y)[i] = reinterpret_cast<const float4*>(x)[i];", {"global_load_bytes": 4096, "global_load_sectors": 128, "global_store_sectors": 128}),
    "columns of a tile": (_TURN.replace("WIDTH", "32"), {"shared_bank_conflicts": 31 * 128, "shared_store_bytes": 16_384, "shared_load_bytes": 4096, "barriers": 4}),
    "columns of a padded tile": (_TURN.replace("WIDTH", "33"), {"shared_bank_conflicts": 0, "barriers": 4}),
    "atomics": (_I + "if (i == 0) w[0] = 0;\ny[i] = x[i];\natomicAdd(&hits, 1);", {"atomics": 1024, "global_load_bytes": 4096}),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), COUNTS.values(), ids=COUNTS.keys())
def test_counts_are_those_of_the_guide(body: str, expected: dict[str, int], cpu: CpuExecutor) -> None:
    case = Case("count", body, before="__device__ int hits = 0;\n", shape=_SHAPE)

    result = cpu.run(replace(case.job("check"), count=True))

    assert isinstance(result, JobOk), result
    assert {k: result.facts[k] for k in expected} == expected


def test_nothing_is_counted_unless_asked_for(cpu: CpuExecutor) -> None:
    result = Case("quiet", _I + "y[i] = x[i];", shape=_SHAPE).run(cpu)

    assert isinstance(result, JobOk), result
    assert result.facts == {}
