"""The same runs in `trace.jsonl` and at LangSmith, proved against a stand-in of its API; a broken one costs nothing."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.langsmith_server import LangSmithServer, langsmith_server

from cuda_harness.tools.trace.recorder import read_trace

pytestmark = [pytest.mark.slow, pytest.mark.network]
SCALE = "y = 2*x for a float32 vector x of 1000 elements"


def generate(
    tmp_path: Path, server: LangSmithServer, wish: str = SCALE, code: int = 0
) -> tuple[dict[str, Any], Path]:
    environment = {
        **os.environ, "LANGSMITH_TRACING": "true", "LANGSMITH_ENDPOINT": server.url, "LANGSMITH_API_KEY": "lsv2_pt_0123456789abcdef",
        "LANGSMITH_PROJECT": "kernels",
    }  # fmt: skip
    command = [
        sys.executable,
        "-m",
        "cuda_harness",
        "generate",
        wish,
        "--model",
        "offline",
        "--executor",
        "cpu",
        "--json",
    ]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env=environment,
    )
    assert done.returncode == code, done.stderr
    document = json.loads(done.stdout)
    return document, Path(document["run_dir"])


def test_the_same_runs_are_local_and_at_langsmith(tmp_path: Path) -> None:
    with langsmith_server() as server:
        document, run = generate(tmp_path, server)

    local = {r["id"]: r for r in read_trace(run)}
    assert document["status"] == "verified"
    assert set(server.runs) == set(local)
    assert server.keys == {"lsv2_pt_0123456789abcdef"}
    for name, sent in server.runs.items():
        kept = local[name]
        assert (sent["trace_id"], sent.get("parent_run_id")) == (kept["trace_id"], kept["parent_run_id"])
        assert sent["dotted_order"] == kept["dotted_order"]
        assert sent["session_name"] == "kernels"
        assert sent["end_time"]
    kinds = {r["run_type"] for r in local.values()}
    assert kinds == {"chain", "llm", "tool"}
    coder = next(r for r in server.runs.values() if r["name"] == "ask_coder")
    assert {"role:coder", "attempt:1"} <= set(coder["tags"])
    compiled = next(r for r in local.values() if r["name"] == "verify.compile")
    assert {"role:verifier", "attempt:1", "stage:compile"} <= set(compiled["tags"])
    assert local[compiled["parent_run_id"]]["name"] == "verifier"


def test_a_secret_reaches_neither_file_nor_server(tmp_path: Path) -> None:
    with langsmith_server() as server:
        _, run = generate(tmp_path, server, "my key is sk-abcdefghijklmnopqrstuvwx", 4)

    assert server.bodies
    for text in (
        (run / "trace.jsonl").read_text(),
        (run / "events.jsonl").read_text(),
        "".join(server.bodies),
    ):
        assert "sk-abcdef" not in text


@pytest.mark.parametrize(("status", "delay_s"), [(500, 0.0), (202, 300.0)], ids=["refuses", "hangs"])
def test_an_upload_that_fails_never_touches_the_run(tmp_path: Path, status: int, delay_s: float) -> None:
    began = time.monotonic()
    with langsmith_server(status=status, delay_s=delay_s) as server:
        document, run = generate(tmp_path, server)
        took = time.monotonic() - began

    assert document["status"] == "verified"
    assert (
        took - document["usage"]["seconds"] < 150
    )  # seconds where a processor is free; the server would take five minutes
    assert {"cuda_harness", "deliver"} <= {r["name"] for r in read_trace(run)}
