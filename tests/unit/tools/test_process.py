"""Children end when they should, take their own children with them, and lose no output that is kept."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cuda_harness.tools.process import ProgramMissing, allowed_environment, die_with_parent, lasting, run


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def gone(pid: int, within_s: float = 20.0) -> bool:
    """Whether the process ends within the time; one that only waits to be reaped has ended."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.02)
    return False


GRANDCHILD = """
import os, sys, time
pid = os.fork()
if pid == 0:
    time.sleep(60)
open(sys.argv[1], "w").write(str(pid))
os.rename(sys.argv[1], sys.argv[1] + ".done")
%s
"""


def test_a_time_out_ends_grandchildren(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    for seconds in (1.0, 5.0, 20.0):  # a busy machine takes a while to start Python
        done = run([*python(GRANDCHILD % "time.sleep(60)"), note], timeout_s=seconds)

        assert (done.status, done.returncode, done.ok) == ("timed_out", None, False)
        assert done.seconds < seconds + 20
        if (tmp_path / "pid.done").exists():
            break
    assert gone(int((tmp_path / "pid.done").read_text()))


def test_a_grandchild_that_holds_the_pipe_does_not_hold_us(tmp_path: Path) -> None:
    done = run([*python(GRANDCHILD % "print('bye')"), tmp_path / "pid"], timeout_s=20)

    assert (done.status, done.stdout) == ("exited", b"bye\n")
    assert done.seconds < 20
    assert gone(int((tmp_path / "pid.done").read_text()))


def test_a_lot_of_output_does_not_block_the_child() -> None:
    text = "import sys; sys.stdout.write('a' + 'x' * 5_000_000 + 'z'); sys.stderr.write('e' * 300_000)"

    done = run(python(text), timeout_s=30, max_output=10_000)

    assert done.ok
    assert done.stdout.startswith(b"ax")
    assert done.stdout.endswith(b"xz")
    assert b"4990002 bytes left out" in done.stdout
    assert len(done.stdout) < 10_100
    assert len(done.stderr) < 10_100


def test_five_megabytes_are_kept_whole_when_asked() -> None:
    done = run(python("import sys; sys.stdout.write('x' * 5_000_000)"), timeout_s=30, max_output=20 << 20)

    assert done.stdout == b"x" * 5_000_000


def test_standard_input_arrives_whole_and_may_be_ignored() -> None:
    data = os.urandom(300_000)

    echoed = run(["cat"], timeout_s=10, stdin=data)
    ignored = run(["true"], timeout_s=10, stdin=data * 10)

    assert echoed.stdout == data
    assert ignored.ok


def test_a_cancellation_ends_the_child_at_once() -> None:
    cancel = threading.Event()
    timer = threading.Timer(0.3, cancel.set)
    timer.start()

    done = run(["sleep", "60"], timeout_s=60, cancel=[cancel])

    timer.join()
    assert done.status == "cancelled"
    assert done.seconds < 30


@pytest.mark.parametrize(
    ("text", "code"), [("import sys; sys.exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)]
)
def test_how_a_child_ended_is_told(text: str, code: int) -> None:
    done = run(python(text), timeout_s=20)

    assert (done.status, done.returncode, done.ok) == ("exited", code, False)


@pytest.mark.parametrize("program", ["no-such-program-here", "/etc/hostname", "/no/such/folder/tool"])
def test_a_missing_program_is_named(program: str) -> None:
    with pytest.raises(ProgramMissing, match=f"cannot start '{program}'"):
        run([program], timeout_s=5)


def test_keys_of_the_user_stay_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")

    done = run(["env"], timeout_s=10)

    assert b"secret" not in done.stdout
    assert allowed_environment({"A": "1"})["A"] == "1"
    assert b"PATH=" in done.stdout


def test_an_owner_killed_by_sigkill_leaves_no_orphan(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    child = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    owner = subprocess.Popen(
        python(
            f"from cuda_harness.tools.process import run; import sys; run([sys.executable, '-c', {child!r}], timeout_s=60)"
        )
    )
    try:
        end = time.monotonic() + 60
        while not (note.exists() and note.read_text()) and time.monotonic() < end:
            time.sleep(0.02)
        pid = int(note.read_text())
    finally:
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait(timeout=10)

    assert gone(pid)


SPINS = "while True: pass"
SLEEPS = "import time; time.sleep(60)"


@pytest.mark.parametrize(("text", "starved"), [(SPINS, True), (SLEEPS, False)])
def test_a_busy_machine_is_told_from_a_program_that_waits(
    text: str, starved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuda_harness.tools.process.processor_seconds", lambda pid: 0.0)
    done = run([sys.executable, "-S", "-c", text], timeout_s=0.6, patience=2.0)
    assert done.status == "timed_out"
    assert done.starved is starved
    assert (done.seconds >= 1.2) is starved


def test_a_program_that_had_its_processor_time_gets_no_more() -> None:
    done = run([sys.executable, "-S", "-c", SPINS], timeout_s=0.5, patience=100.0)
    assert (done.status, done.starved) == ("timed_out", False)


def test_a_lasting_process_outlives_the_thread_that_asked_for_it() -> None:
    made: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "60"], preexec_fn=die_with_parent)

    asking = threading.Thread(target=lambda: made.extend([lasting(start), start()]))
    asking.start()
    asking.join()
    lasts, ends = made
    assert ends.wait(timeout=10) == -signal.SIGKILL, "as without it"
    assert lasts.poll() is None
    lasts.kill()
    lasts.wait()
