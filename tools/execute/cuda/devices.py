"""Which GPU a run uses: by number, by UUID, or the least busy one; asked of a child, so that we never touch CUDA."""

import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_harness.state.errors import ExecutorUnavailable
from cuda_harness.tools.execute.cuda.lock import Claim, choosing, claim, claims, is_busy
from cuda_harness.tools.execute.cuda.worker import child_environment
from cuda_harness.tools.process import ProgramMissing, run

_LIST_S = 30.0
_NAME = "cuda:auto"


@dataclass(frozen=True)
class Visible:
    """One device that CUDA shows to this process."""

    index: int
    uuid: str
    name: str
    utilization_percent: int | None
    """Of the last second, by NVML; `None` where it does not tell."""
    used_bytes: int | None


@dataclass(frozen=True)
class Choice:
    """A device as its children are started."""

    index: int
    environment: dict[str, str]
    claim: Claim | None = None
    """Held since the choice, so that two runs that choose at once take different devices."""


def choose(
    argument: str, *, listed: Callable[[], Sequence[Visible]] | None = None, folder: Path | None = None
) -> Choice:
    """Return the device called `argument`.

    Args:
        argument: Empty or a number: that device among the visible ones. `auto`: the least busy. `GPU-...` or `MIG-...`:
            by UUID, which CUDA_VISIBLE_DEVICES takes as well.
        listed: Returns the visible devices; by default asked of a child.
        folder: Where lock files lie; `None`: the user's cache folder.

    Raises:
        ExecutorUnavailable: If the name is none of these, or nothing is visible.
    """
    if not argument or argument.isdecimal():
        return Choice(int(argument or 0), {})
    if argument.startswith(("GPU-", "MIG-")):
        return Choice(0, {"CUDA_VISIBLE_DEVICES": argument})
    if argument != "auto":
        msg = f"cuda:{argument}"
        raise ExecutorUnavailable(
            msg, "a device is named by its number, its UUID or `auto`", remedy="use cuda:0"
        )
    if listed is None:
        # No device file may mean that they go by other names here.
        if len(list(Path("/dev").glob("nvidia[0-9]*"))) == 1:
            return Choice(0, {})
        listed = list_visible
    devices = listed()
    if not devices:
        raise ExecutorUnavailable(_NAME, "no CUDA device is visible", remedy="see CUDA_VISIBLE_DEVICES")
    with choosing(folder=folder):
        best = least_busy(devices, folder=folder)
        return Choice(best.index, {}, claim(best.uuid, folder=folder))


def least_busy(
    devices: Sequence[Visible], *, folder: Path | None = None,
) -> Visible:  # fmt: skip
    """Return the device with the fewest runs, then not locked, then least used by NVML, then the first."""

    def load(device: Visible) -> tuple[Any, ...]:
        return (
            claims(device.uuid, folder=folder), is_busy(device.uuid, folder=folder), (device.utilization_percent or 0) // 10,
            (device.used_bytes or 0) >> 30, device.index,
        )  # fmt: skip

    return min(devices, key=load)


def list_visible() -> list[Visible]:
    """Return the devices CUDA shows to our children, in its order.

    Raises:
        ExecutorUnavailable: If CUDA does not start.
    """
    argv = [sys.executable, "-P", "-m", "cuda_harness.tools.execute.cuda.child", "--list"]
    try:
        done = run(argv, timeout_s=_LIST_S, env=child_environment())
    except ProgramMissing as exc:
        raise ExecutorUnavailable(_NAME, str(exc), remedy="") from exc
    try:
        rows = json.loads(done.stdout.decode("utf-8", "replace")) if done.ok else None
    except ValueError:
        rows = None
    if not isinstance(rows, list):
        last = (done.text().strip().splitlines() or ["no message"])[-1]
        raise ExecutorUnavailable(_NAME, f"no CUDA device: {last[:300]}", remedy="see `cuda-harness doctor`")
    return [Visible(**row) for row in rows]


def print_visible() -> None:
    """Print the visible devices as JSON; runs in a child, makes no context."""
    from cuda.bindings import driver

    from cuda_harness.tools.execute.cuda.faults import check

    check((*driver.cuInit(0), None), "starting CUDA")
    rows = []
    for index in range(int(check(driver.cuDeviceGetCount(), "counting devices"))):
        device = check(driver.cuDeviceGet(index), "opening a device")
        uuid = _uuid(bytes(check(driver.cuDeviceGetUuid(device), "asking for the UUID").bytes))
        name = check(driver.cuDeviceGetName(128, device), "asking for the name")
        percent, used = _nvml(uuid)
        rows.append({
            "index": index, "uuid": uuid, "name": bytes(name).split(b"\0")[0].decode("utf-8", "replace"),
            "utilization_percent": percent, "used_bytes": used,
        })  # fmt: skip
    print(json.dumps(rows))  # noqa: T201 - the answer to the parent


def _uuid(raw: bytes) -> str:
    """Return a UUID as nvidia-smi writes it, without its prefix, as cuda.core does."""
    text = raw[:16].hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _nvml(uuid: str) -> tuple[int | None, int | None]:
    with contextlib.suppress(Exception):
        from cuda.bindings import nvml

        nvml.init_v2()
        handle = nvml.device_get_handle_by_uuid(f"GPU-{uuid}")
        used = int(nvml.device_get_memory_info_v2(handle).used)
        return int(nvml.device_get_utilization_rates(handle).gpu), used
    return None, None
