"""An executor whose times come from a formula: what is done with times is tested, nothing is measured."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from cuda_harness.state.results import CompileOk, CompileRejected
from cuda_harness.tools.execute.protocol import DeviceFacts, JobFault, JobNotRun


class ScriptedClock:
    """Answers `time` jobs of kernels that double `x`, by a table over the block size."""

    name = "cuda:0"
    modes = frozenset({"plain"})

    def __init__(self, cubin: Path, us: dict[int, float], wrong: frozenset[int] = frozenset()) -> None:
        self.us, self.wrong = us, wrong
        self.rejects: set[int] = set()
        self.faults: set[int] = set()
        self.timed: list[list[int]] = []
        self.compiled: list[int] = []
        self.known: list[list[list[Any]]] = []
        self.sends = True
        self.counted: dict[str, Any] = {"status": "ok", "counted": [], "why": "no counters here"}
        """What a job that counts is answered."""
        self.clocks: list[dict[str, Any]] = [
            {"sm_mhz": 1980, "temperature_c": 40, "power_w": 300.0, "reasons": 0}
        ]
        self._cubin = cubin
        self._rng = np.random.default_rng(1)

    def facts(self) -> dict[str, Any]:
        return {
            "name": "scripted",
            "uuid": "GPU-scripted",
            "arch": "sm_90a",
            "num_sms": 4,
            "free_bytes": 1 << 30,
            "l2_bytes": 1 << 20,
        }

    def device(self) -> DeviceFacts:
        return DeviceFacts(name="scripted", num_sms=4)

    def compile(self, source: str, *, macros: dict[str, int], **_: Any) -> CompileOk | CompileRejected:
        block = macros.get("BLOCK", 0)
        self.compiled.append(block)
        if block in self.rejects:
            return CompileRejected(log="error: too many resources", seconds=0.0)
        return CompileOk(arch="sm_90a", cubin_sha256="0", cubin_path=str(self._cubin), seconds=0.0)

    def ask(self, header: dict[str, Any], blobs: list[bytes], **_: Any) -> Any:
        if header["do"] == "count":
            return self.counted, []
        blocks = [int(p["ops"][0]["block"][0]) for p in header["programs"]]
        self.timed.append(blocks)
        self.known.append(header["known"])
        if self.faults & set(blocks):
            return JobFault("crash", "the GPU process died while the kernel ran")
        inputs = blobs[len(blocks) + 1 :]
        checked, sent = [], []
        for block in blocks:
            y = 2.0 * np.frombuffer(inputs[0], dtype=np.float32) + (1.0 if block in self.wrong else 0.0)
            digest = hashlib.sha256(y.tobytes()).hexdigest()
            send = self.sends and [0, digest] not in header["known"]
            checked.append([{"set": 0, "digest": digest, "sent": send}])
            if send:
                sent.append(y.astype(np.float32).tobytes())
        rounds = max(int(header["least"]), 20)
        samples = [list(self.us[b] * (1 + 0.002 * self._rng.gamma(2.0, size=rounds))) for b in blocks]
        reply = {
            "status": "ok", "samples_us": samples, "checked": checked, "clocks": self.clocks, "seconds": 0.1, "others": [],
            "enqueue_us": [5.0] * len(blocks),
        }  # fmt: skip
        return reply, sent

    def run(self, job: Any) -> JobNotRun:
        return JobNotRun("environment", "scripted")

    def close(self) -> None:
        return None
