"""What an author is told of the CPU executor is what lies in its headers and in its table."""

import itertools
import re

from cuda_harness.tools.execute.cpu.cache import INCLUDE
from cuda_harness.tools.execute.cpu.known import known_device_code
from cuda_harness.tools.execute.cpu.ptx_table import opcodes


def opened(line: str) -> list[str]:
    """The words of a line with their braces opened."""
    words = []
    for word in line.partition(": ")[2].split():
        parts = [p.split(",") for p in re.split(r"[{}]", word)]
        words += ["".join(p) for p in itertools.product(*parts)]
    return words


def test_every_header_that_is_named_exists_and_none_is_left_out() -> None:
    named = opened(known_device_code()[0])
    there = {str(p.relative_to(INCLUDE)) for p in INCLUDE.rglob("*") if p.is_file() and "sim" not in p.name}
    assert set(named) == there
    assert "cub/block/block_scan.cuh" in named


def test_intrinsics_and_instructions_are_those_of_the_executor() -> None:
    _, threads, asm = known_device_code()
    assert {"__shfl_xor_sync", "__syncthreads", "__syncthreads_or", "__ldg", "__pipeline_commit"} <= set(
        opened(threads)
    )
    text = "".join(p.read_text(encoding="utf-8") for p in INCLUDE.rglob("*") if p.is_file())
    assert all(re.search(rf"\b{name}\b", text) for name in opened(threads))
    assert opened(asm) == opcodes()


def test_the_list_stays_short() -> None:
    assert sum(map(len, known_device_code())) < 1_800
