"""Check mode names the class, the line and the buffer of a fault, and lets honest kernels pass in silence."""

import numpy as np
import pytest
from tests.integration.cpu.fault_cases import ALL
from tests.integration.cpu.programs import Case, Shape

from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.protocol import JobFault, JobNotRun, JobOk

FAULTY = [c for c in ALL if c.fault]
HONEST = [c for c in ALL if not c.fault]


@pytest.mark.parametrize("case", FAULTY, ids=lambda c: c.name)
def test_fault_is_caught(case: Case, cpu: CpuExecutor) -> None:
    result = case.run(cpu)

    assert isinstance(result, JobFault), result
    assert result.fault == case.fault, result
    for piece in case.says:
        assert piece in result.message, result.message
    if case.line is not None:
        assert result.evidence["line"] == case.line, result
    assert result.evidence["kernel"] == "k"


@pytest.mark.parametrize("case", HONEST, ids=lambda c: c.name)
def test_honest_kernel_passes(case: Case, cpu: CpuExecutor) -> None:
    result = case.run(cpu)

    assert isinstance(result, JobOk), result
    if case.warns:
        assert any(case.warns in w for w in result.warnings), result.warnings
    else:
        assert result.warnings == ()
    plain = case.run(cpu, "plain")
    assert isinstance(plain, JobOk), plain
    for checked, fast in zip(result.calls, plain.calls, strict=True):
        np.testing.assert_allclose(checked.arrays["y"], fast.arrays["y"], rtol=1e-6)


def test_each_class_has_three_faults_and_three_look_alikes() -> None:
    from tests.integration.cpu import fault_cases

    tables = [v for k, v in vars(fault_cases).items() if isinstance(v, list) and k != "ALL"]
    assert len(tables) >= 8
    for table in tables:
        assert sum(c.fault is not None for c in table) >= 3
        assert sum(c.fault is None for c in table) >= 3


UNWRITTEN = [
    ("tail left out", "int i = threadIdx.x;\nif (i < n - 3) y[i] = x[i];", [61, 62, 63]),
    ("every second element", "int i = threadIdx.x;\nif (i % 2 == 0) y[i] = x[i];", list(range(1, 64, 2))),
    ("nothing at all", "if (n < 0) y[0] = x[0];", list(range(64))),
]


@pytest.mark.parametrize(("name", "body", "missing"), UNWRITTEN, ids=[u[0] for u in UNWRITTEN])
def test_unwritten_elements_are_named_exactly(
    name: str, body: str, missing: list[int], cpu: CpuExecutor
) -> None:
    result = Case(name, body).run(cpu)

    assert isinstance(result, JobOk), result
    call = result.calls[0]
    assert call.unwritten["y"] == 4 * len(missing)
    assert np.flatnonzero(call.unwritten_at["y"]).tolist() == missing


def test_poison_that_is_written_on_purpose_counts_as_written(cpu: CpuExecutor) -> None:
    body = "int i = threadIdx.x;\nif (i < 63) y[i] = x[i];\nelse y[i] = __int_as_float(0x7fc00000);"

    result = Case("nan", body).run(cpu)

    assert isinstance(result, JobOk), result
    assert result.calls[0].unwritten == {"y": 0}


LIMITS = [
    (Shape(block=(2048, 1, 1)), ("2048", "1024")),
    (Shape(block=(1, 1, 65)), ("65", "64")),
    (Shape(block=(32, 32, 2)), ("2048", "1024")),
    (Shape(grid=(1, 70_000, 1)), ("70000", "65535")),
    (Shape(shared_bytes=300_000), ("300000", "232448")),
]


@pytest.mark.parametrize(("shape", "says"), LIMITS)
def test_launch_beyond_a_limit_is_explained(shape: Shape, says: tuple[str, ...], cpu: CpuExecutor) -> None:
    result = Case("limit", "y[threadIdx.x % n] = x[0];", shape=shape).run(cpu)

    assert isinstance(result, JobFault), result
    assert result.fault == "launch_config"
    for piece in says:
        assert piece in result.message.replace(",", "").replace("_", ""), result.message


def test_what_the_host_compiler_refuses_names_the_line_and_blames_nobody(cpu: CpuExecutor) -> None:
    """NVRTC judges whether a kernel compiles; g++ over the shim only says what it cannot run."""
    result = Case("typo", "int i = threadIdx.x;\ny[i] = undeclared_name;").run(cpu)

    assert isinstance(result, JobNotRun), result
    assert result.reason == "unsupported"
    assert "undeclared_name" in result.message
    assert result.evidence["line"] == 3
