"""How ncu is asked: a script in its place writes tables of given numbers, refuses, or hangs."""

import sys
from pathlib import Path
from typing import Any

import pytest

from cuda_harness.state.results import CompileOk, CompileRejected
from cuda_harness.tools.execute.protocol import Buffer, Job, LaunchOp, PointerArg, Program
from cuda_harness.tools.profile.counters import METRICS, Counters, NoCounters, count

SCRIPT = """#!{python}
import sys, time
args = sys.argv[1:]
value = lambda name: args[args.index(name) + 1]
log, metrics = open(value("--log-file"), "w"), value("--metrics").split(",")
mode = "{mode}"
if mode == "hang":
    time.sleep(60)
if mode == "forbidden":
    log.write("==ERROR== ERR_NVGPUCTRPERM\\n")
    sys.exit(1)
if mode == "unknown" and "{tensor}" in metrics:
    log.write("==ERROR== Failed to find metric {tensor}\\n")
    sys.exit(1)
head = ["ID", "Kernel Name", "Device", *metrics]
quoted = lambda row: ",".join('"%s"' % x for x in row) + "\\n"
log.write("==PROF== Connected\\n" + quoted(head) + quoted([""] * len(head)))
for number in range(int(value("--launch-count"))):
    log.write(quoted([number, "twice(float *)", 0, *(["1,000.5"] * len(metrics))]))
"""
JOB = Job(
    "source", Program((Buffer("y", "float32", 8, "out"),), tuple(LaunchOp("twice", (1, 1, 1), (8, 1, 1), 0, (PointerArg("y"),)) for _ in range(2))), ({},)
)  # fmt: skip


class Runs:
    """An executor whose job files hold nothing: the script in ncu's place does not read them."""

    def __init__(self, *, compiles: bool = True) -> None:
        self.compiles = compiles
        self.commands = 0

    def write_job(self, job: Job, path: Path) -> Any:
        path.write_bytes(b"")
        if not self.compiles:
            return CompileRejected(seconds=0.0)
        return CompileOk(arch="sm_90a", cubin_sha256="0", cubin_path="", seconds=0.0)

    def once_command(self, path: Path, answer: Path | None = None) -> list[str]:
        self.commands += 1
        return ["child", "--once", str(path), "--answer", str(answer)]

    def once_environment(self) -> dict[str, str]:
        return {"PATH": "/nonexistent"}


@pytest.fixture
def ncu(tmp_path: Path) -> Any:
    def make(mode: str) -> str:
        path = tmp_path / "ncu"
        path.write_text(SCRIPT.format(python=sys.executable, mode=mode, tensor=METRICS["tensor_pct"]))
        path.chmod(0o755)
        return str(path)

    return make


def test_each_launch_is_counted_once(ncu: Any) -> None:
    found = count(Runs(), JOB, program=ncu("plain"))
    assert isinstance(found, Counters), found
    assert [name for name, _ in found.launches] == ["twice", "twice"]
    assert set(found.launches[0][1]) == set(METRICS)
    assert found.launches[0][1]["time_ns"] == 1000.5
    assert found.missing == ()


def test_a_metric_that_ncu_does_not_know_is_left_out_and_named(ncu: Any) -> None:
    executor = Runs()
    found = count(executor, JOB, program=ncu("unknown"))
    assert isinstance(found, Counters), found
    assert found.missing == (METRICS["tensor_pct"],)
    assert "tensor_pct" not in found.launches[0][1]
    assert executor.commands == 2


@pytest.mark.parametrize(
    ("mode", "told"), [("forbidden", "counters are forbidden"), ("hang", "did not end within")]
)
def test_what_ncu_refuses_is_a_reason(ncu: Any, mode: str, told: str) -> None:
    found = count(Runs(), JOB, program=ncu(mode), limit_s=4.0)
    assert isinstance(found, NoCounters)
    assert told in found.reason


def test_what_keeps_ncu_from_running_is_a_reason(ncu: Any) -> None:
    assert "not installed" in _reason(count(Runs(), JOB))
    assert "behind a profiler" in _reason(count(object(), JOB))
    assert "does not compile" in _reason(count(Runs(compiles=False), JOB, program=ncu("plain")))
    assert "launches no kernel" in _reason(
        count(Runs(), Job("s", Program((), ()), ({},)), program=ncu("plain"))
    )


def _reason(found: Counters | NoCounters) -> str:
    assert isinstance(found, NoCounters)
    return found.reason
