"""The run's proved suite, as the roles that judge and time kernels use it."""

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.suite import Inputs

if TYPE_CHECKING:
    from cuda_harness.agents.context import Services
    from cuda_harness.tools.profile.session import Clock
    from cuda_harness.tools.profile.workload import Workload
    from cuda_harness.tools.synthesize.suite import Suite


def suite_of(services: "Services", ir: KernelIR) -> "Suite":
    """Return the run's proved suite."""
    from cuda_harness.tools.synthesize.suite import Suite
    from cuda_harness.tools.synthesize.truths import LargeTruths

    folder = services.folder
    specs = Inputs.from_json(folder.read_json("suite/inputs.json"), where="suite/inputs.json")
    return Suite(
        ir, folder.read_text("suite/reference.py"), runner=services.references, seed=services.seed, specs=specs,
        folder=folder.path("suite"), large=services._once("large_truths", LargeTruths),  # noqa: SLF001 - as below
    )  # fmt: skip


def workload_of(services: "Services", ir: KernelIR) -> "Workload":
    """Return the contents that all kernels of the run are timed on, and the truths of timed calls.

    Drawn once: at large sizes that takes longer than timing does.
    """
    from cuda_harness.tools.profile.workload import workload

    def make() -> "Workload":
        return workload(ir, suite=suite_of(services, ir))

    made: Workload = services._once("workload", make)  # noqa: SLF001 - one of the run's tools, made on first use
    return made


def clock_of(services: "Services") -> "Clock | None":
    """Return the executor as one that times plans, `None` where it does not."""
    executor = services.executor
    return cast("Clock", executor) if hasattr(executor, "ask") and hasattr(executor, "facts") else None


@contextlib.contextmanager
def turn(services: "Services") -> Iterator[None]:
    """Wait for one of as many places as there are cores: branches judge side by side, and none starves by the others.

    A ladder has a limit of wall seconds, so more of them than cores would leave stages unmeasured.

    Raises:
        KeyboardInterrupt: If the run is cancelled while it waits.
    """
    places: threading.BoundedSemaphore = services._once(  # noqa: SLF001 - one of the run's tools, made on first use
        "places", lambda: threading.BoundedSemaphore(max(1, len(os.sched_getaffinity(0))))
    )
    while not places.acquire(timeout=0.5):
        if services.cancelled.is_set():
            raise KeyboardInterrupt
    try:
        yield
    finally:
        places.release()
