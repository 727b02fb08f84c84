"""An interrupt of the owner ends the child and its group."""

import signal
import subprocess
import sys
import time
from pathlib import Path

PY = [sys.executable, "-c"]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def gone(pid: int, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


def _pid_of(noted: Path) -> int:
    end = time.monotonic() + 20
    while not noted.exists() and time.monotonic() < end:
        time.sleep(0.02)
    return int(noted.read_text())


def test_an_interrupt_ends_the_group(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    owner = subprocess.Popen(
        [*PY, "import sys, pathlib; from cuda_harness.tools.process import run\n"
              f"run([sys.executable, '-c', \"import os, time; open({str(noted)!r} + '.tmp', 'w').write(str(os.getpid())); "
              f"os.rename({str(noted)!r} + '.tmp', {str(noted)!r}); time.sleep(60)\"], timeout_s=60)"],
        stderr=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    child = _pid_of(noted)
    owner.send_signal(signal.SIGINT)
    assert owner.wait(20) != 0
    assert gone(child)
