"""Times PyTorch operators in a process of its own: `python -m ...torch_child JOB ANSWER DEVICE`.

The same protocol as for kernels: contents copied in place from a randomly chosen set, L2 flushed and the device held
busy outside the events, median of many. The first operator whose outputs agree with the reference on a small case is
the one that is timed; its outputs at the target size go back to the parent, which compares them. The GPU is held alone
while something is timed, and not while torch.compile works; eager times are answered before it begins.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cuda_harness.tools.execute.cuda.lock import device_lock
from cuda_harness.tools.frames import read_frame, write_frame
from cuda_harness.tools.profile.operators import Operator, by_name

_MAX_BYTES = 32 << 30
_LOCK_S = 120.0
_HOLD_CYCLES = 200_000
_DTYPES = {
    "float16": "float16", "bfloat16": "bfloat16", "float32": "float32", "float64": "float64", "int8": "int8", "int16": "int16",
    "int32": "int32", "int64": "int64", "uint8": "uint8", "bool": "bool", "float8_e4m3": "float8_e4m3fn", "float8_e5m2": "float8_e5m2",
}  # fmt: skip


class Bench:
    """Operators on one device."""

    def __init__(self, header: dict[str, Any], blobs: list[bytes], device: int) -> None:
        import torch

        self.torch, self.header = torch, header
        self.device = torch.device("cuda", device)
        torch.cuda.set_device(self.device)
        allowed = bool(header["allow_tf32"])
        torch.backends.cuda.matmul.allow_tf32 = allowed
        torch.backends.cudnn.allow_tf32 = allowed
        self.rng = np.random.default_rng(header["seed"])
        names = header["inputs"]
        self.small = [self.tensor(b, d, s) for b, (d, s) in zip(blobs, header["small"], strict=False)]
        truths = blobs[len(names) : len(names) + len(header["truths"])]
        self.truths = [
            np.frombuffer(b, dtype=np.float64).reshape(s)
            for b, s in zip(truths, header["truths"], strict=True)
        ]
        rest = blobs[len(names) + len(truths) :]
        self.sets = [
            [
                self.tensor(b, d, s)
                for b, (d, s) in zip(rest[k * len(names) :], header["target"], strict=False)
            ]
            for k in range(header["sets"])
        ]
        self.live = [t.clone() for t in self.sets[0]]
        l2 = torch.cuda.get_device_properties(self.device).L2_cache_size
        self.flush = torch.empty(2 * int(l2), dtype=torch.uint8, device=self.device)

    def tensor(self, data: bytes, dtype: str, shape: list[int]) -> Any:  # noqa: ANN401 - a tensor
        """Return bytes as a tensor on the device."""
        kind = getattr(self.torch, _DTYPES[dtype])
        host = self.torch.frombuffer(bytearray(data or b"\0"), dtype=self.torch.uint8)[: len(data)]
        return host.to(self.device).view(kind).reshape(shape)

    def outputs(self, operator: Operator, inputs: list[Any], scalars: dict[str, Any]) -> list[Any] | None:
        """Return an operator's outputs, `None` when it does not apply."""
        try:
            found = operator.call(self.torch, [t.clone() for t in inputs], scalars)
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, NotImplementedError):
            return None
        if found is None:
            return None
        return list(found) if isinstance(found, tuple) else [found]

    def agrees(self, operator: Operator) -> bool:
        """Return whether the operator computes what the reference says on the small case."""
        found = self.outputs(operator, self.small, self.header["small_scalars"])
        if found is None or len(found) != len(self.truths):
            return False
        for got, truth in zip(found, self.truths, strict=True):
            if got.numel() != truth.size:
                return False
            values = got.double().cpu().numpy().reshape(truth.shape)
            scale = max(1.0, float(np.max(np.abs(truth), initial=0.0)))
            if not np.allclose(values, truth, rtol=2e-2, atol=2e-2 * scale, equal_nan=True):
                return False
        return True

    def samples_us(self, call: Any, limit_s: float) -> list[float]:  # noqa: ANN401 - a callable
        """Return cold times of a callable over the live inputs, with the GPU to itself."""
        with device_lock(self.header["uuid"], exclusive=True, timeout_s=_LOCK_S):
            return self._samples_us(call, limit_s)

    def _samples_us(self, call: Any, limit_s: float) -> list[float]:  # noqa: ANN401 - a callable
        torch = self.torch
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(5):
            call(self.live)
        torch.cuda.synchronize()
        found: list[float] = []
        began = time.monotonic()
        while len(found) < self.header["most"] and (time.monotonic() - began < limit_s or len(found) < 10):
            chosen = self.sets[int(self.rng.integers(len(self.sets)))]
            for live, source in zip(self.live, chosen, strict=True):
                live.copy_(source)
            self.flush.fill_(int(self.rng.integers(255)))
            if hasattr(torch.cuda, "_sleep"):
                torch.cuda._sleep(_HOLD_CYCLES)  # noqa: SLF001 - the only way to keep the device busy from PyTorch
            begin.record()
            call(self.live)
            end.record()
            end.synchronize()
            found.append(float(begin.elapsed_time(end)) * 1000.0)
        return found[len(found) // 10 :]


Reply = tuple[dict[str, Any], list[bytes]]


def measure(header: dict[str, Any], blobs: list[bytes], device: int, early: Callable[[Reply], None]) -> Reply:
    """Return the operator found, its times by mode, and its outputs on the first content set.

    `early` is given what is known before torch.compile begins.
    """
    with device_lock(header["uuid"], exclusive=False, timeout_s=_LOCK_S):
        bench = Bench(header, blobs, device)
        chosen = next((o for o in by_name(header["operators"]) if bench.agrees(o)), None)
    torch = bench.torch
    answer: dict[str, Any] = {
        "status": "ok",
        "torch": torch.__version__,
        "operator": chosen.name if chosen else None,
    }
    if chosen is None:
        return answer, []
    scalars = header["scalars"]
    found = bench.outputs(chosen, bench.sets[0], scalars)
    if found is None:
        return {**answer, "operator": None}, []
    sent = [t.contiguous().reshape(-1).view(torch.uint8).cpu().numpy().tobytes() for t in found]
    answer["outputs"] = [[str(t.dtype).removeprefix("torch."), list(t.shape)] for t in found]
    answer["eager_us"] = bench.samples_us(lambda live: chosen.call(torch, live, scalars), header["limit_s"])
    if header["compile"]:
        early(({**answer, "compile_reason": "it did not end in time"}, sent))
        try:
            compiled = torch.compile(
                lambda live: chosen.call(torch, live, scalars), mode="max-autotune-no-cudagraphs"
            )
            compiled(bench.live)
            answer["compile_us"] = bench.samples_us(compiled, header["limit_s"])
        except Exception as exc:  # noqa: BLE001 - no compiler, no triton: eager stands
            answer["compile_reason"] = f"{type(exc).__name__}: {exc}"[:300]
    return answer, sent


def main() -> None:
    """Answer one job."""
    job, answer, device = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    with job.open("rb") as stream:
        header, blobs = read_frame(stream, max_bytes=_MAX_BYTES)
    reply: dict[str, Any]
    data: list[bytes] = []

    def tell(found: Reply) -> None:
        part = answer.with_suffix(".part")
        with part.open("wb") as stream:
            write_frame(stream, *found)
        part.replace(answer)

    try:
        reply, data = measure(header, blobs, device, tell)
    except Exception as exc:  # noqa: BLE001 - whatever keeps PyTorch from it is the answer
        reply = {"status": "failed", "message": f"{type(exc).__name__}: {exc}"[:400]}
    tell((reply, data))


if __name__ == "__main__":
    main()
