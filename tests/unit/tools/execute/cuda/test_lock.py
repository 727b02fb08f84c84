"""The lock of a GPU: shared by checks, alone for timing, freed by the kernel when its owner dies."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cuda_harness.tools.execute.cuda.lock import Lease, LockTimeout, claim, claims, device_lock, is_busy

UUID = "GPU-0/../x y"
OWNER = """
import sys, time
from pathlib import Path
from cuda_harness.tools.execute.cuda.lock import claim, device_lock
note = claim({uuid!r}, folder=Path(sys.argv[1]))
with device_lock({uuid!r}, exclusive=True, timeout_s=5, folder=Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
""".replace("{uuid!r}", repr(UUID))


def test_checks_share_and_timing_is_alone(tmp_path: Path) -> None:
    with (
        device_lock(UUID, exclusive=False, timeout_s=1, folder=tmp_path),
        device_lock(UUID, exclusive=False, timeout_s=1, folder=tmp_path),
    ):
        with (
            pytest.raises(LockTimeout),
            device_lock(UUID, exclusive=True, timeout_s=0.1, folder=tmp_path),
        ):
            pass
        assert is_busy(UUID, folder=tmp_path)
    with (
        device_lock(UUID, exclusive=True, timeout_s=1, folder=tmp_path),
        pytest.raises(LockTimeout, match=f"held by process {os.getpid()}"),
        device_lock(UUID, exclusive=False, timeout_s=0.1, folder=tmp_path),
    ):
        pass
    assert not is_busy(UUID, folder=tmp_path)


def test_waiting_is_told(tmp_path: Path) -> None:
    taken, waiting = threading.Event(), threading.Event()

    def hold() -> None:
        with device_lock(UUID, exclusive=True, timeout_s=1, folder=tmp_path):
            taken.set()
            waiting.wait(30)
            time.sleep(0.4)

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait(30)
    waiting.set()
    with device_lock(UUID, exclusive=False, timeout_s=30, folder=tmp_path) as held:
        assert held.waited_s >= 0.05
    holder.join()


def test_a_stream_of_checks_does_not_starve_timing(tmp_path: Path) -> None:
    stop = threading.Event()

    def check() -> None:
        while not stop.is_set():
            with device_lock(UUID, exclusive=False, timeout_s=30, folder=tmp_path):
                time.sleep(0.05)

    checkers = [threading.Thread(target=check) for _ in range(4)]
    for checker in checkers:
        checker.start()
    try:
        with device_lock(UUID, exclusive=True, timeout_s=30, folder=tmp_path):
            pass
    finally:
        stop.set()
        for checker in checkers:
            checker.join()


def test_a_dead_owner_frees_the_lock_and_its_claim(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"held\n"
    assert claims(UUID, folder=tmp_path) == 1
    with (
        pytest.raises(LockTimeout, match=f"held by process {owner.pid}"),
        device_lock(UUID, exclusive=False, timeout_s=0.1, folder=tmp_path),
    ):
        pass
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    with device_lock(UUID, exclusive=True, timeout_s=20, folder=tmp_path):
        assert claims(UUID, folder=tmp_path) == 0


def test_claims_are_counted_and_released(tmp_path: Path) -> None:
    first, second = claim(UUID, folder=tmp_path), claim(UUID, folder=tmp_path)
    assert claims(UUID, folder=tmp_path) == 2
    assert claims("GPU-other", folder=tmp_path) == 0
    first.release()
    first.release()
    assert claims(UUID, folder=tmp_path) == 1
    second.release()
    assert not list(tmp_path.glob("*.user"))


def test_a_read_only_home_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    with device_lock(UUID, exclusive=True, timeout_s=1):
        assert is_busy(UUID)
    assert list((tmp_path / "tmp").rglob("*.lock"))


def test_names_of_files_cannot_leave_the_folder(tmp_path: Path) -> None:
    with device_lock("../../etc/x", exclusive=True, timeout_s=1, folder=tmp_path):
        assert {p.parent for p in tmp_path.rglob("*")} == {tmp_path}


def test_checks_that_follow_one_another_share_a_turn(tmp_path: Path) -> None:
    lease = Lease(UUID, folder=tmp_path)
    for _ in range(2):
        with lease.held(exclusive=False, timeout_s=1):
            pass
        assert is_busy(UUID, folder=tmp_path), "the turn goes on between two checks"
    lease.release()
    assert not is_busy(UUID, folder=tmp_path)


def test_a_turn_ends_for_those_who_wait(tmp_path: Path) -> None:
    lease = Lease(UUID, most_s=0.2, folder=tmp_path)
    order: list[str] = []

    def measure() -> None:
        with device_lock(UUID, exclusive=True, timeout_s=5, folder=tmp_path):
            order.append("measured")

    with lease.held(exclusive=False, timeout_s=1):
        waiting = threading.Thread(target=measure)
        waiting.start()
        time.sleep(0.3)
        order.append("checked")
    with lease.held(exclusive=False, timeout_s=5):
        order.append("checked again")
    waiting.join()
    lease.release()
    assert order == ["checked", "measured", "checked again"]


def test_a_measurement_of_ones_own_ends_the_turn_first(tmp_path: Path) -> None:
    lease = Lease(UUID, folder=tmp_path)
    with lease.held(exclusive=False, timeout_s=1):
        pass
    with lease.held(exclusive=True, timeout_s=1) as held:
        assert held.waited_s < 0.5
        assert not lease.is_held
    assert not is_busy(UUID, folder=tmp_path)


def test_a_check_lets_all_measurements_pass_that_wait_already(tmp_path: Path) -> None:
    order: list[str] = []
    threads: list[threading.Thread] = []

    def take(name: str, *, exclusive: bool) -> None:
        with device_lock(UUID, exclusive=exclusive, timeout_s=20, folder=tmp_path):
            order.append(name)
            time.sleep(0.1)

    with device_lock(UUID, exclusive=False, timeout_s=5, folder=tmp_path):
        for name, exclusive in (("first", True), ("second", True), ("check", False)):
            threads.append(threading.Thread(target=take, args=(name,), kwargs={"exclusive": exclusive}))
            threads[-1].start()
            time.sleep(0.15)
    for thread in threads:
        thread.join()
    assert order[-1] == "check"
    assert set(order[:2]) == {"first", "second"}


def test_measurements_do_not_keep_a_check_waiting_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuda_harness.tools.execute.cuda.lock._YIELDS_S", 0.3)
    stop = threading.Event()

    def measure() -> None:
        while not stop.is_set():
            with device_lock(UUID, exclusive=True, timeout_s=20, folder=tmp_path):
                time.sleep(0.1)

    measuring = [threading.Thread(target=measure) for _ in range(2)]
    for thread in measuring:
        thread.start()
    try:
        with device_lock(UUID, exclusive=False, timeout_s=10, folder=tmp_path) as held:
            assert held.waited_s < 5
    finally:
        stop.set()
        for thread in measuring:
            thread.join()
