"""A run killed by SIGKILL at any moment goes on to the same result, and repeats no finished model call."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

REQUEST = "relu of a float32 vector with 3000 elements"
KILLS = 20
"""By `--corpus`; a plain run cuts three times, each in another third of the run."""


def command(*words: str, out: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "cuda_harness",
        *words,
        "--json",
        *(["--out", str(out)] if words[0] == "generate" else []),
    ]


def environment() -> dict[str, str]:
    return {
        k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "LANGSMITH_", "CUDA_HARNESS_"))
    }


def start(out: Path, *more: str) -> subprocess.Popen[bytes]:
    words = ("generate", REQUEST, "--model", "offline", "--executor", "cpu", "--seed", "11", *more)
    return subprocess.Popen(
        command(*words, out=out), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
    )


def essence(document: dict[str, Any]) -> dict[str, Any]:
    """What must not depend on where the run was cut."""
    return {
        "status": document["status"],
        "kernel": document["kernel"]["sha256"],
        "attempts": [(a["id"], a["status"], a["strategy"]) for a in document["attempts"]],
        "calls": document["usage"]["calls"],
        "stop": document["stop"]["reason"],
        "branches": [(b["branch"], b["attempts"], b["kept"], b["reason"]) for b in document["branches"]],
    }


def replies(run: Path) -> dict[str, tuple[int, int]]:
    """Identity of each reply file: an equal inode and time means it was not written again."""
    return {
        p.name: (p.stat().st_ino, p.stat().st_mtime_ns)
        for p in (run / "replies").glob("*")
        if p.suffix == ".json"
    }


def happened(out: Path) -> int:
    """Return how many events the only run below `out` has written down."""
    return sum(file.read_bytes().count(b"\n") for file in out.glob("*/events.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [pytest.param("0", marks=pytest.mark.long), "1"])
def test_a_run_killed_at_random_moments_ends_the_same(
    rounds: str, tmp_path: Path, whole_corpus: bool
) -> None:
    kills = KILLS if whole_corpus else 3
    whole, _ = start(tmp_path / "whole", "--rounds", rounds).communicate(timeout=300)
    expected = essence(json.loads(whole))
    assert expected["status"] == "verified"
    events = happened(tmp_path / "whole")
    moments = random.Random(20)
    for index in range(kills):
        out = tmp_path / f"cut{index}"
        child = start(out, "--rounds", rounds)
        last = 1 + int((index + moments.random()) / kills * (events - 2))
        while happened(out) < last and child.poll() is None:
            time.sleep(0.05)
        time.sleep(moments.random() * 0.1)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        runs = list(out.glob("*"))
        before = replies(runs[0])
        done = subprocess.run(
            command("resume", str(runs[0]), out=out),
            capture_output=True,
            timeout=300,
            check=False,
            env=environment(),
        )
        assert done.returncode == 0, done.stderr.decode()
        assert essence(json.loads(done.stdout)) == expected
        after = replies(runs[0])
        assert {k: after.get(k) for k in before} == before, "a finished model call was made again"
    left = subprocess.run(
        ["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False
    ).stdout.split()
    assert not left, f"orphan processes: {left}"
