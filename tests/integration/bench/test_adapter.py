"""The CUDABench adapter as a user runs it, against programs that cheat: host programs made by g++ stand for nvcc's."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.fakes.openai_server import Answer, openai_server
from typer.testing import CliRunner

from cuda_harness.graph.cli import app
from cuda_harness.graph.marking import Marking
from cuda_harness.tools.benchmarks import candidate
from cuda_harness.tools.benchmarks.candidate import Binary
from cuda_harness.tools.benchmarks.contain import contains
from cuda_harness.tools.benchmarks.grade import Grader

SUITE = Path(__file__).resolve().parents[3] / "examples" / "suite" / "suite.jsonl"
HEAD = """// Declares a __global__ function only in this comment: a host program.
#include <csignal>
#include <cstdio>
#include <unistd.h>
#include <vector>
"""
LOAD = 'std::vector<float> x(32768), y(32768); FILE* f = fopen("data/x.bin", "rb"); if (!f || fread(x.data(), 4, x.size(), f) != x.size()) return 3; fclose(f);'
RELU = "for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] > 0 ? x[i] : 0;"
SAVE = 'f = fopen("data/y.bin", "wb"); if (!f) return 4; fwrite(y.data(), 4, y.size(), f); fclose(f);'
COPY = (
    'FILE* f = fopen("data/y_ref.bin", "rb"); if (!f) f = fopen("../data/y_ref.bin", "rb"); if (!f) return 9; std::vector<char> b(131072);'
    'if (fread(b.data(), 1, b.size(), f) != b.size()) return 9; f = fopen("data/y.bin", "wb"); fwrite(b.data(), 1, b.size(), f);'
)
PROGRAMS = {
    "correct": (f"{LOAD} {RELU} {SAVE}", True, True, ""),
    "nothing over a stale output": ("", True, False, "wrote no data/y.bin"),
    "copies the expected file": (COPY, False, False, "exit code 9"),
    "exits 0 after crashing": (
        f"signal(SIGSEGV, [](int) {{ _exit(0); }}); {LOAD} *(volatile int*)0 = 1; {SAVE}", True, False, "wrote no data/y.bin",
    ),
    "prints F": (f'puts("F FAIL"); fprintf(stderr, "F\\n"); {LOAD} {RELU} {SAVE}', True, True, ""),
    "spins": (f"{LOAD} {RELU} {SAVE} for (;;) pause();", False, False, "did not end"),
}  # fmt: skip
"""Body, comp, func, and what the row says."""


@pytest.mark.network
def test_each_program_is_graded_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not contains():
        pytest.skip("needs Landlock and seccomp")

    def binary(self: Marking, source: str, flags: tuple[str, ...], folder: Path) -> Binary:
        (folder / "p.cpp").write_text(source)
        argv = ["g++", "-O0", "-w", str(folder / "p.cpp"), "-o", str(folder / "p")]
        subprocess.run(argv, check=True, timeout=60, capture_output=True)
        return Binary(source, folder, built=folder / "p", needs_gpu=False)

    monkeypatch.setattr(Marking, "binary", binary)
    monkeypatch.setattr(candidate, "RUN_SECONDS", 3.0)
    monkeypatch.setattr(Grader.__init__, "__kwdefaults__", {"secret_seeds": 1, "unsafe": False})
    monkeypatch.setenv("OPENAI_API_KEY", "sk-local-not-a-real-key-1234")
    out = tmp_path / "results"
    answers = [
        Answer(f"```cuda\n{HEAD}int main() {{ {body} return 0; }}\n```") for body, *_ in PROGRAMS.values()
    ]
    with openai_server(*answers) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        arguments = [
            "bench", "cudabench", "--data", str(SUITE), "--level", "1", "--ids", "1", "--samples", str(len(PROGRAMS)),
            "--baseline", "one-shot", "--model", "openai:scripted", "--executor", "cpu", "--out", str(out),
        ]  # fmt: skip
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        again = CliRunner().invoke(app, arguments)  # everything is done: no call is made
        assert again.exit_code == 0, again.output
        assert len(server.requests) == len(PROGRAMS)

    rows = {r["sample"]: r for r in map(json.loads, (out / "results.jsonl").read_text().splitlines())}
    for sample, (name, (_, comp, func, says)) in enumerate(PROGRAMS.items(), start=1):
        row = rows[sample]
        assert (row["status"], row["graded_by"], row["judge"]) == ("program", "program", []), row
        assert (row["comp"], row["func"], row["func_official"]) == (comp, func, func), (name, row)
        assert says in row["detail"]
        assert (row["calls"], row["input_tokens"], row["output_tokens"]) == (1, 100, 10)
        assert (out / row["run"] / "replies").is_dir()
    assert re.search(r"\[6/6, 0:00 left\] ReLU \(id 1\) level 1 sample 6", done.output)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["overall"]["func_percent"] == pytest.approx(100 * 2 / 6)
    official = json.loads(next((out / "official").glob("*.jsonl")).read_text())
    assert official["code1"].startswith("// Declares")
    assert [official[f"functionality{n}"] for n in range(1, 7)] == [True, False, False, False, True, False]
