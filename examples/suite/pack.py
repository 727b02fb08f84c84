"""Writes suite.jsonl from the folders of this suite."""

from pathlib import Path

from cuda_harness.tools.benchmarks.task import pack, read_tasks

HERE = Path(__file__).resolve().parent

if __name__ == "__main__":
    (HERE / "suite.jsonl").write_text(pack(read_tasks(HERE)), encoding="utf-8")
