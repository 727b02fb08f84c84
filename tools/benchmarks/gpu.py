"""The GPU on which a program runs: made the only one that it sees, and locked while it works."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from cuda_harness.tools.execute.cuda.lock import Held, device_lock
from cuda_harness.tools.execute.protocol import Executor

LOCK_SECONDS = 600.0
"""Longest wait for the lock: other workers may be timing one after the other."""
_VISIBLE, _ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine."""

    uuid: str
    environment: Mapping[str, str]
    """What shows a program this GPU and no other."""

    def lock(self, *, alone: bool) -> AbstractContextManager[Held]:
        """Return its lock: alone for timing, else shared with checks; LockTimeout on entering."""
        return device_lock(self.uuid, exclusive=alone, timeout_s=LOCK_SECONDS)


def gpu_of(executor: Executor) -> Gpu | None:
    """Return the GPU of an executor of ours, `None` when it has none on this machine.

    Raises:
        ExecutorUnavailable: If the GPU does not start.
    """
    from cuda_harness.tools.execute.cuda.executor import CudaExecutor

    if not isinstance(executor, CudaExecutor):
        return None
    index = int(executor.name.partition(":")[2])
    return Gpu(str(executor.facts()["uuid"]), only(index, executor.once_environment()))


def only(index: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what shows a program the `index`-th of the devices that `environment` shows, and no other."""
    shown = [name.strip() for name in environment.get(_VISIBLE, "").split(",") if name.strip()]
    order = {_ORDER: environment[_ORDER]} if _ORDER in environment else {}
    return {**order, _VISIBLE: shown[index] if index < len(shown) else str(index)}
