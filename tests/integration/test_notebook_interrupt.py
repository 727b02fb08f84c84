"""Ctrl-C and a notebook's stop button: children end within two seconds, and the call returns what there is."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fakes.openai_server import Answer, openai_server

from cuda_harness import RunContext, Settings, generate

PROGRAM = """
import sys
from cuda_harness import generate
from cuda_harness.graph.configure import load_settings
import os
result = generate({request!r}, model={model!r}, executor="cpu", out={out!r}, settings=load_settings({{}}, environment=os.environ))
print(result.status, result.stop["reason"], result.run_dir, flush=True)
"""
HEAVY = (
    "Multiply a float32 matrix of 900 rows and 900 columns by a float32 matrix of 900 rows and 900 columns."
)


def heeding_interrupts() -> None:
    """A shell's background jobs ignore Ctrl-C, and what they start inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(tmp_path: Path, request: str, model: str, **environment: str) -> "subprocess.Popen[str]":
    code = PROGRAM.format(request=request, model=model, out=str(tmp_path / "runs"))
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**os.environ, **environment},
        preexec_fn=heeding_interrupts,
    )  # fmt: skip


def wait_for(found: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def events(tmp_path: Path) -> list[str]:
    lines = [line for f in (tmp_path / "runs").glob("*/events.jsonl") for line in f.read_text().splitlines()]
    return [json.loads(line)["event"] for line in lines]


def descendants(pid: int) -> list[int]:
    """Living processes below `pid`, by the kernel's own list."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(p) for p in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_an_interrupt_while_kernels_run_ends_the_children(tmp_path: Path) -> None:
    owner = start(tmp_path, HEAVY, "offline")
    try:
        wait_for(lambda: "kernel_written" in events(tmp_path))
        wait_for(lambda: bool(descendants(owner.pid)), 30)
        children = descendants(owner.pid)
        began = time.monotonic()
        owner.send_signal(signal.SIGINT)
        wait_for(lambda: not any(map(alive, children)), 20)
        took = time.monotonic() - began
        out, err = owner.communicate(timeout=60)
    finally:
        owner.kill()
    assert took < 10  # two seconds are promised on a machine with a free core
    assert owner.returncode == 0, err
    assert out.split()[1] == "interrupted"
    assert (Path(out.split()[2]) / "report.html").is_file()


@pytest.mark.slow
@pytest.mark.network
def test_an_interrupt_while_a_model_thinks_does_not_wait_for_it(tmp_path: Path) -> None:
    with openai_server(Answer("late", delay_s=15)) as server:
        owner = start(tmp_path, "anything", "openai:fake", OPENAI_API_KEY="k" * 8, OPENAI_BASE_URL=server.url)
        try:
            wait_for(lambda: bool(server.requests))
            began = time.monotonic()
            owner.send_signal(signal.SIGINT)
            assert owner.stdout is not None
            line = owner.stdout.readline()
            took = time.monotonic() - began
            _, err = owner.communicate(timeout=60)
        finally:
            owner.kill()
    assert owner.returncode == 0, err
    assert line.split()[:2] == ["failed", "interrupted"]
    assert (
        took < 10
    )  # the model would have taken fifteen; two seconds are for the run, the rest for a busy machine


@pytest.mark.slow
def test_the_best_verified_kernel_survives_an_interrupt_and_can_be_called(tmp_path: Path) -> None:
    def stop_after_the_verdict(event: str, _fields: Mapping[str, Any]) -> None:
        if event == "kernel_profiled":
            raise KeyboardInterrupt

    context = RunContext(
        model="offline", executor="cpu", out=tmp_path, settings=Settings(), listener=stop_after_the_verdict
    )

    result = generate("y = 2*x for a float32 vector x of 1000 elements", context=context)

    assert result.status == "verified"
    assert result.stop["reason"] == "interrupted"
    assert np.array_equal(result(np.ones(3, np.float32)), np.full(3, 2, np.float32))
    assert (result.run_dir / "best/kernel.cu").is_file()
