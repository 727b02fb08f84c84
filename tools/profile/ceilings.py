"""What one device can do at most, measured once with kernels of our own and kept with date and clocks."""

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from cuda_harness.state.serde import Model
from cuda_harness.tools.execute.protocol import (
    Buffer,
    JobFault,
    JobNotRun,
    LaunchOp,
    PointerArg,
    Program,
    ValueArg,
)
from cuda_harness.tools.profile.session import Clock, Contender, Session, Timed, measure

VERSION = 2
_MAX_AGE_S = 30 * 86_400.0
_ROUNDS = 4_096
_NEEDED = frozenset({"copy", "launch"})
"""Without these there is no floor; the others may be missing."""
_ITEMS = 16
"""Bytes of one vector access."""

READER = "read_vectors"
"""Reads `n` vectors of 16 bytes: `(to, from, n)`."""
SOURCE = """
extern "C" __global__ void copy_vectors(uint4 *__restrict__ y, const uint4 *__restrict__ x, long long n) {
    long long stride = (long long)gridDim.x * blockDim.x, i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < n; i += 4 * stride) {
        uint4 a = x[i], b = x[i + stride], c = x[i + 2 * stride], d = x[i + 3 * stride];
        y[i] = a; y[i + stride] = b; y[i + 2 * stride] = c; y[i + 3 * stride] = d;
    }
    for (; i < n; i += stride) y[i] = x[i];
}
extern "C" __global__ void read_vectors(uint4 *__restrict__ y, const uint4 *__restrict__ x, long long n) {
    long long stride = (long long)gridDim.x * blockDim.x, i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned found = 0;
    for (; i + 3 * stride < n; i += 4 * stride) {
        uint4 a = x[i], b = x[i + stride], c = x[i + 2 * stride], d = x[i + 3 * stride];
        found ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
    }
    for (; i < n; i += stride) found ^= x[i].x ^ x[i].y ^ x[i].z ^ x[i].w;
    if (found == 0x5bd1e995u) y[threadIdx.x] = make_uint4(found, found, found, found);
}
extern "C" __global__ void write_vectors(uint4 *__restrict__ y, long long n) {
    long long stride = (long long)gridDim.x * blockDim.x, i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < n; i += stride) y[i] = make_uint4((unsigned)i, 1u, 2u, (unsigned)(i >> 32));
}
extern "C" __global__ void fma_chains(float *__restrict__ y, int rounds, float scale) {
    float a[8];
    for (int k = 0; k < 8; ++k) a[k] = (float)(threadIdx.x + 7 * k) * 1e-3f;
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int u = 0; u < 4; ++u)
#pragma unroll
            for (int k = 0; k < 8; ++k) a[k] = fmaf(a[k], scale, 1e-3f);
    }
    float sum = 0.0f;
    for (int k = 0; k < 8; ++k) sum += a[k];
    y[(long long)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void tensor_products(float *__restrict__ y, int rounds) {
    // 16x8x16 half products with float32 sums, as an instruction of the warp: no header is needed.
    unsigned a[4], b[2];
    float c[8][4];
    for (int k = 0; k < 4; ++k) a[k] = 0x2c002c00u + (threadIdx.x * 31 + k * 17) % 61;
    for (int k = 0; k < 2; ++k) b[k] = 0x2c002c00u + (threadIdx.x * 13 + k * 29) % 53;
    for (int k = 0; k < 8; ++k)
        for (int e = 0; e < 4; ++e) c[k][e] = 0.0f;
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int k = 0; k < 8; ++k)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(c[k][0]), "+f"(c[k][1]), "+f"(c[k][2]), "+f"(c[k][3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    float sum = 0.0f;
    for (int k = 0; k < 8; ++k)
        for (int e = 0; e < 4; ++e) sum += c[k][e];
    y[(long long)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void nothing() {}
"""


class Ceilings(Model):
    """Measured limits of one device."""

    bandwidth_bytes_per_s: float = Field(gt=0)
    """Of a copy, bytes read plus bytes written: what streaming kernels are held against."""
    launch_us: float = Field(gt=0)
    """Between two events around an empty kernel: the least time of any plan with a launch."""
    flops_per_s: float | None = Field(default=None, gt=0)
    """float32 multiply-adds, two operations each."""
    tensor_flops_per_s: float | None = Field(default=None, gt=0)
    """Tensor cores through warp-wide half products; warpgroup instructions can be faster."""
    peak_bytes_per_s: float | None = Field(default=None, gt=0)
    """The best of reading, writing and copying: no kernel moves more."""
    l2_bytes: int = Field(default=0, ge=0)
    device: str = ""
    uuid: str = ""
    date: str = ""
    """UTC, ISO 8601."""
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    details: dict[str, float] = Field(default_factory=dict)
    """Bandwidths by direction, in bytes a second."""
    version: int = VERSION

    def streaming_us(self, read: int, written: int) -> float:
        """Return microseconds to read and write so many bytes: what goes both ways at the rate of a copy, the rest at its own."""
        both = min(read, written)
        us = 2 * both / self.bandwidth_bytes_per_s
        for name, alone in (("read", read - both), ("write", written - both)):
            us += alone / self.details.get(f"{name}_bytes_per_s", self.bandwidth_bytes_per_s)
        return us * 1e6

    @property
    def most_bytes_per_s(self) -> float:
        """The bandwidth that bounds what is possible."""
        return max(self.peak_bytes_per_s or 0.0, self.bandwidth_bytes_per_s)


def ceilings(
    executor: Clock, *, folder: Path | None = None, refresh: bool = False
) -> Ceilings | JobFault | JobNotRun:
    """Return the device's ceilings: kept ones no older than 30 days, else measured now (about ten seconds).

    Args:
        executor: The GPU.
        folder: Where they are kept; `None`: the user's cache folder.
        refresh: Measure even if there are kept ones.
    """
    facts = executor.facts()
    path = (folder or _default_folder()) / f"{re.sub(r'[^A-Za-z0-9-]', '_', facts['uuid'])[:80]}.json"
    kept = None if refresh else read_kept(path)
    if kept is not None:
        return kept
    found = _measure_all(executor, facts)
    if isinstance(found, Ceilings):
        _keep(path, found)
    return found


def read_kept(path: Path, *, now: float | None = None) -> Ceilings | None:
    """Return ceilings kept in a file, `None` when they are missing, damaged, old or of another version."""
    try:
        stored = json.loads(path.read_text())
        found = Ceilings.model_validate(stored["ceilings"])
        age_s = (now if now is not None else time.time()) - float(stored["time"])
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        return None
    return found if found.version == VERSION and 0 <= age_s <= _MAX_AGE_S else None


def _keep(path: Path, found: Ceilings) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps({"time": time.time(), "ceilings": found.model_dump()}, indent=1))
        temporary.replace(path)
    except OSError:
        return  # measured anew next time


def _default_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "cuda-harness" / "devices"


def _measure_all(executor: Clock, facts: dict[str, Any]) -> Ceilings | JobFault | JobNotRun:
    sms, arch = int(facts["num_sms"]), facts["arch"]
    # Several times L2, so that what stays there does not count; an eighth of free memory at most.
    size = max(1 << 20, min(1 << 30, int(facts["free_bytes"]) // 8)) // _ITEMS * _ITEMS
    plans = programs(size, sms)
    done = _session(executor, plans, arch)
    if not isinstance(
        done, Session
    ):  # something this device or its headers do not know: the floor needs two of them
        plans = {n: p for n, p in plans.items() if n in _NEEDED}
        done = _session(executor, plans, arch)
    if not isinstance(done, Session):
        return done
    found = dict(zip(plans, done.timed, strict=True))
    return from_times(found, done, size=size, sms=sms, facts=facts)


def _session(executor: Clock, plans: dict[str, Program], arch: str) -> Session | JobFault | JobNotRun:
    contenders = [Contender(name, SOURCE, program) for name, program in plans.items()]
    return measure(
        executor,
        contenders,
        [],
        arch=arch,
        seed=17,
        precision=0.003,
        least=40,
        most=150,
        limit_s=6.0,
        outputs=False,
    )


def programs(size: int, sms: int) -> dict[str, Program]:
    """Return the plan of each measurement for buffers of `size` bytes on a device of `sms` multiprocessors."""
    n = ValueArg("int64", size // _ITEMS)
    x, y = Buffer("x", "uint8", size, "scratch"), Buffer("y", "uint8", size, "out")
    threads = sms * 8 * 256
    sums = Buffer("y", "float32", threads, "out")
    rounds = ValueArg("int32", _ROUNDS)

    def launch(kernel: str, blocks: int, *args: Any) -> LaunchOp:  # noqa: ANN401 - one of the Arg types
        return LaunchOp(kernel, (blocks, 1, 1), (256, 1, 1), 0, args)

    both = (PointerArg("y"), PointerArg("x"), n)
    return {
        "copy": Program((x, y), (launch("copy_vectors", sms * 8, *both),)),
        "read": Program((x, y), (launch("read_vectors", sms * 8, *both),)),
        "write": Program((y,), (launch("write_vectors", sms * 16, PointerArg("y"), n),)),
        "fma": Program(
            (sums,), (launch("fma_chains", sms * 8, PointerArg("y"), rounds, ValueArg("float32", 0.999)),)
        ),
        "tensor": Program((sums,), (launch("tensor_products", sms * 8, PointerArg("y"), rounds),)),
        "launch": Program((Buffer("y", "float32", 1, "out"),), (launch("nothing", 1),)),
    }


def from_times(
    found: dict[str, Timed], session: Session, *, size: int, sms: int, facts: dict[str, Any], today: Callable[[], str] | None = None
) -> Ceilings:  # fmt: skip
    """Return the ceilings that the measured times mean."""
    us = {name: timed.median.value for name, timed in found.items()}
    moved = {"copy": 2 * size, "read": size, "write": size}
    details = {f"{n}_bytes_per_s": moved[n] / us[n] * 1e6 for n in moved if n in us}
    threads = sms * 8 * 256
    fma = threads * _ROUNDS * 4 * 8 * 2 / us["fma"] * 1e6 if "fma" in us else None
    tensor = threads // 32 * _ROUNDS * 8 * (2 * 16 * 8 * 16) / us["tensor"] * 1e6 if "tensor" in us else None
    launch = sorted(found["launch"].samples_us)
    return Ceilings(
        bandwidth_bytes_per_s=details["copy_bytes_per_s"], launch_us=launch[len(launch) // 20], flops_per_s=fma,
        tensor_flops_per_s=tensor, peak_bytes_per_s=max(details.values()), l2_bytes=int(facts["l2_bytes"]), device=facts["name"],
        uuid=facts["uuid"], date=(today or (lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())))(),
        sm_mhz=session.typical("sm_mhz"), memory_mhz=session.typical("memory_mhz"), details=details,
    )  # fmt: skip
