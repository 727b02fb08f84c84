"""Counting through CUPTI: passes, ranges, what it refuses; a library of Python stands in, and NVIDIA's own plans."""

import ctypes
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fakes.host_machine import Machine, floats

from cuda_harness.tools.execute.cuda.cupti import _PARAMS, Cupti, Plan, Refused, count_job
from cuda_harness.tools.execute.cuda.kernels import Modules
from cuda_harness.tools.profile.counters import METRICS

N, PASSES = 64, 3
TIME, BYTES = "gpu__time_duration.sum", "dram__bytes_read.sum"


class Library:
    """Has a range for each launch between start and stop; knows two metrics; notes both in the driver's log."""

    def __init__(self, gpu: Machine) -> None:
        self.gpu, self.known = gpu, {TIME.encode(), BYTES.encode()}
        self.fails: dict[str, int] = {}
        self.hosts, self.passes, self.ranges, self.dropped, self.more = 0, 0, 0, 0, 0
        self.began = 0

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cupti"):
            raise AttributeError(name)

        def call(reference: Any) -> int:
            params, short = reference._obj, name.removeprefix("cupti")
            last = getattr(type(params), params._fields_[-1][0])
            assert params.structSize == last.offset + last.size
            if short in self.fails:
                return self.fails[short]
            return int(getattr(self, f"_{short}", lambda _: 0)(params) or 0)

        return call

    def _DeviceGetChipName(self, p: Any) -> None:  # noqa: N802 - CUPTI's names
        p.chip = b"GH100"

    def _ProfilerGetCounterAvailability(self, p: Any) -> None:  # noqa: N802
        p.size = 4

    def _ProfilerHostInitialize(self, p: Any) -> None:  # noqa: N802
        self.hosts += 1
        p.host = self.hosts

    def _ProfilerHostConfigAddMetrics(self, p: Any) -> int:  # noqa: N802
        names = (ctypes.c_char_p * p.count).from_address(p.names)
        return 0 if set(names) <= self.known else 1

    def _ProfilerHostGetConfigImageSize(self, p: Any) -> None:  # noqa: N802
        p.size = 8

    def _ProfilerHostGetNumOfPasses(self, p: Any) -> None:  # noqa: N802
        p.passes = PASSES

    def _RangeProfilerGetCounterDataSize(self, p: Any) -> None:  # noqa: N802
        p.size = 16

    def _RangeProfilerStart(self, _: Any) -> None:  # noqa: N802
        self.began = self.gpu.launched
        self.gpu.log.append(("start",))

    def _RangeProfilerStop(self, p: Any) -> None:  # noqa: N802
        self.gpu.log.append(("stop",))
        self.passes += 1
        self.ranges = self.gpu.launched - self.began
        p.is_complete = self.passes == PASSES

    def _RangeProfilerDecodeData(self, p: Any) -> None:  # noqa: N802
        p.dropped = self.dropped

    def _RangeProfilerGetCounterDataInfo(self, p: Any) -> None:  # noqa: N802
        p.ranges = self.ranges + self.more

    def _ProfilerHostEvaluateToGpuValues(self, p: Any) -> None:  # noqa: N802
        values = (ctypes.c_double * p.count).from_address(p.values)
        assert p.range % 2 == 0, "sweeps are not asked about"
        values[0] = 100.0 + p.range / 2
        values[1] = math.nan if p.range else 7.0


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    machine.install(monkeypatch)

    def double(y: int, x: int) -> None:
        assert (floats(x) == np.arange(N)).all(), "every pass has the same contents"
        floats(y)[:] = 2 * floats(x)

    machine.bodies |= {"k": double, "other": double, "sweep": lambda _to, _from, _n: None}
    return machine


def count(gpu: Machine, library: Library, kernels: tuple[str, ...] = ("k", "other"), *, most: int = 6, metrics: tuple[str, ...] = (TIME, BYTES), block: int = 64) -> dict[str, Any]:  # fmt: skip
    ops = [
        {
            "op": "launch", "kernel": name, "grid": [40, 1, 1], "block": [block, 1, 1], "shared": 0, "cluster": None, "cooperative": False,
            "args": [{"pointer": "y"}, {"pointer": "x"}],
        }
        for name in kernels
    ]  # fmt: skip
    header = {
        "buffers": [
            {"name": "x", "dtype": "float32", "count": N, "role": "in"},
            {"name": "y", "dtype": "float32", "count": N, "role": "out"},
        ],
        "ops": ops, "inputs": ["x"], "calls": 1, "poison": 5, "own_allocations": False, "vary_addresses": True, "full_output": False,
        "metrics": list(metrics), "most": most, "sweep": "sweep",
    }  # fmt: skip
    contents = np.arange(N, dtype=np.float32).tobytes()
    answer, blobs = count_job(header, [b"cubin", b"sweep", contents], gpu, Modules(), Cupti(library))
    assert not blobs
    assert gpu.taken == 0, "all memory is given back"
    return answer


def test_each_launch_has_its_counters_from_as_many_passes_as_are_needed(gpu: Machine) -> None:
    answer = count(gpu, library := Library(gpu))
    assert (answer["status"], answer["passes"], library.passes) == ("ok", PASSES, PASSES)
    assert gpu.launched == 2 * 2 * PASSES
    assert [name for name, _ in answer["counted"]] == ["k", "other"]
    first, second = (values for _, values in answer["counted"])
    assert (first[TIME], first[BYTES], second[TIME]) == (100.0, 7.0, 101.0)
    assert BYTES not in second, "what has no value is left out"


def test_facts_of_a_launch_come_from_the_driver(gpu: Machine) -> None:
    [_, values] = count(gpu, Library(gpu), ("k",))["counted"][0]
    assert values["launch__registers_per_thread"] == 16
    assert values["launch__waves_per_multiprocessor"] == 40 / (gpu.per_sm * 4)
    assert values["launch__occupancy_limit_registers"] == 4 * (16_384 // 512) // 2
    assert values["launch__occupancy_limit_shared_mem"] == 32, "what a multiprocessor takes at most"
    gpu.static_shared = 9 * 1024
    [_, values] = count(gpu, Library(gpu), ("k",), block=512)["counted"][0]
    assert values["launch__occupancy_limit_registers"] == 4 * (16_384 // 512) // 16
    assert values["launch__occupancy_limit_shared_mem"] == 233_472 // (10 * 1024)


def test_caches_are_cold_before_every_launch(gpu: Machine) -> None:
    count(gpu, Library(gpu))
    kinds = [
        line[1] if line[0] == "launch" else line[0]
        for line in gpu.log
        if line[0] in {"start", "stop", "launch"}
    ]
    assert kinds == ["sweep", "start", "k", "sweep", "other", "stop"] * PASSES
    read = next(line for line in gpu.log if line[:2] == ("launch", "sweep"))[-1][-1]
    assert read * 16 == 2 * gpu.properties.l2_cache_size


def test_no_more_launches_are_counted_than_were_asked_for(gpu: Machine) -> None:
    answer = count(gpu, Library(gpu), ("k",) * 5, most=2)
    assert [values[TIME] for _, values in answer["counted"]] == [100.0, 101.0]
    assert gpu.launched == PASSES * 2 * 2, "nor run"


@pytest.mark.parametrize("wrong", [{"dropped": 1}, {"more": 1}, {"more": -1}])
def test_ranges_that_are_not_those_of_the_launches_are_nobodys_counters(
    gpu: Machine, wrong: dict[str, int]
) -> None:
    library = Library(gpu)
    vars(library).update(wrong)
    answer = count(gpu, library)
    assert (answer["status"], answer["counted"]) == ("ok", [])
    assert "ranges" in answer["why"]


def test_counters_that_a_chip_does_not_know_are_left_out(gpu: Machine) -> None:
    answer = count(gpu, Library(gpu), metrics=(TIME, "sm__nothing.sum", BYTES))
    assert answer["counted"][0][1][BYTES] == 7.0
    none = count(gpu, Library(gpu), metrics=("sm__nothing.sum",))
    assert (none["status"], none["counted"]) == ("ok", [])


@pytest.mark.parametrize(
    ("function", "code", "told"),
    [
        ("ProfilerGetCounterAvailability", 35, "forbidden to this user"),
        ("RangeProfilerEnable", 26, "another profiler"),
        ("RangeProfilerStart", 999, "RangeProfilerStart ended with 999"),
    ],
)
def test_what_it_refuses_is_told_and_blames_no_kernel(
    gpu: Machine, function: str, code: int, told: str
) -> None:
    library = Library(gpu)
    library.fails[function] = code
    answer = count(gpu, library)
    assert (answer["status"], answer["counted"]) == ("ok", [])
    assert told in answer["why"]


def test_a_plan_that_launches_nothing_ends(gpu: Machine) -> None:
    assert count(gpu, Library(gpu), ())["counted"] == []


STRUCTURES = {
    "ProfilerHost": "CUpti_Profiler_Host_", "RangeProfilerCounterDataImage": "CUpti_RangeProfiler_CounterDataImage_",
    "RangeProfiler": "CUpti_RangeProfiler_", "Profiler": "CUpti_Profiler_", "Device": "CUpti_Device_",
}  # fmt: skip
"""Prefix of a function -> of the structure of its parameters."""


def test_our_structures_are_those_of_the_headers(tmp_path: Path) -> None:
    """Each is laid out by the compiler from NVIDIA's own text, field after field."""
    package = next(iter(nvidia_folders("cu13/include/cupti_range_profiler.h")), Path())
    cuda = next(iter(nvidia_folders("cu13/include/cuda.h")), None)
    if shutil.which("g++") is None or not package.name or cuda is None:
        pytest.skip("needs g++ and the packages nvidia-cuda-cupti and nvidia-cuda-runtime")
    lines = []
    for function, ours in _PARAMS.items():
        prefix = next(p for p in STRUCTURES if function.startswith(p))
        name = f"{STRUCTURES[prefix]}{function.removeprefix(prefix)}_Params"
        found = re.search(rf"typedef struct {name}\s*\{{(.*?)\}}", headers(package.parent), re.DOTALL)
        assert found, name
        plain = re.sub(r"//[^\n]*|/\*.*?\*/", "", found.group(1), flags=re.DOTALL)
        fields = re.findall(r"(\w+)\s*;", plain)
        assert len(fields) == len(ours._fields_), (name, fields)
        offsets = ", ".join(f"offsetof({name}, {f}), sizeof((({name}*)0)->{f})" for f in fields)
        lines.append(f'show("{function}", {{{name}_STRUCT_SIZE, {offsets}}});')
    source = tmp_path / "layout.cpp"
    source.write_text(
        "#include <cstdio>\n#include <cstddef>\n#include <initializer_list>\n#include <cuda.h>\n#include <cupti_profiler_target.h>\n"
        "#include <cupti_profiler_host.h>\n#include <cupti_range_profiler.h>\n#include <cupti_target.h>\n"
        'void show(const char *n, std::initializer_list<size_t> v) { printf("%s", n); for (size_t x : v) printf(" %zu", x); puts(""); }\n'
        f"int main() {{ {' '.join(lines)} }}\n"
    )
    made = tmp_path / "layout"
    subprocess.run(
        ["g++", f"-I{package.parent}", f"-I{cuda.parent}", str(source), "-o", str(made)], check=True
    )
    told = subprocess.run([str(made)], check=True, capture_output=True, text=True).stdout.splitlines()
    for line in told:
        function, size, *layout = line.split()
        ours = _PARAMS[function]
        fields = [getattr(ours, n) for n, _ in ours._fields_]
        assert [int(n) for n in layout] == [n for f in fields for n in (f.offset, f.size)], function
        assert int(size) == fields[-1].offset + fields[-1].size


def nvidia_folders(name: str) -> list[Path]:
    return [p for folder in sys.path if (p := Path(folder, "nvidia", name)).is_file()]


def headers(folder: Path) -> str:
    return "\n".join(p.read_text(errors="replace") for p in sorted(folder.glob("cupti_*.h")))


def test_the_installed_library_plans_our_counters_for_a_chip() -> None:
    try:
        cupti = Cupti()
    except Refused as exc:
        pytest.skip(str(exc))
    asked = [m for m in METRICS.values() if not m.startswith("launch__")]
    plan = Plan(cupti, b"GH100", asked)
    assert plan.metrics == asked
    assert 5 <= plan.passes <= 20
    assert Plan(cupti, b"GH100", ["sm__nothing.sum", asked[1]]).metrics == [asked[1]]
    with pytest.raises(Refused):
        Plan(cupti, b"NOCHIP", asked)
