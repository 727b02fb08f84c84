"""The compiler is contained too: whatever its parts are made to do, they reach nothing of the user's."""

import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.integration.cpu.programs import Case, Shape

from cuda_harness.state.errors import SandboxUnavailable
from cuda_harness.tools.execute.cpu import build, contain
from cuda_harness.tools.execute.cpu.build import launcher
from cuda_harness.tools.execute.cpu.cache import BuildCache
from cuda_harness.tools.execute.cpu.contain import Bounds, bubblewrap, compile_argv, compiler_environment
from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.protocol import JobFault, JobNotRun, JobOk
from cuda_harness.tools.process import PARENT as PARENTS_ID
from cuda_harness.tools.process import Finished, run

BASH = "/bin/bash"


@pytest.fixture(scope="module")
def program(cpu: CpuExecutor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The launcher, built; `cpu` skips where there is no g++."""
    assert cpu.name == "cpu"
    return launcher(BuildCache(tmp_path_factory.mktemp("launcher")))


def inside(program: Path, folder: Path, script: str, *, cpu_s: int = 10, timeout_s: float = 30) -> Finished:
    """Run a shell script where the compiler would run."""
    if not Path(BASH).exists():
        pytest.skip("no bash on this machine")
    command = compile_argv(program, [BASH, "-c", script], Bounds((), folder, cpu_s), unsafe=False)
    return run(command, timeout_s=timeout_s, cwd=folder, env=compiler_environment("/usr/bin/g++", folder))


def test_its_folder_and_the_system_are_there(program: Path, tmp_path: Path) -> None:
    done = inside(program, tmp_path, "echo made > file && head -c 4 /usr/bin/env >> file && cat file")

    assert done.ok, done
    assert (tmp_path / "file").read_bytes() == b"made\n\x7fELF"


def test_nothing_is_started_for_a_parent_that_has_ended(program: Path, tmp_path: Path) -> None:
    command = compile_argv(program, [BASH, "-c", "echo made > file"], Bounds((), tmp_path, 10), unsafe=False)
    environment = compiler_environment("/usr/bin/g++", tmp_path)

    orphan = run(command, timeout_s=30, cwd=tmp_path, env={**environment, PARENTS_ID: "1"})
    child = run(command, timeout_s=30, cwd=tmp_path, env=environment, ends_itself=True)

    assert (orphan.returncode, child.returncode) == (71, 0)
    assert (tmp_path / "file").exists()


def test_no_key_of_the_users_environment_is_there(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-user")

    done = inside(program, tmp_path, "export; cat /proc/$PPID/environ")

    assert b"sk-secret" not in done.stdout
    assert b"HOME=" not in done.stdout


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/shadow", "/proc/1/environ", "/proc/self/environ"])
def test_files_beyond_the_toolchain_cannot_be_read(path: str, program: Path, tmp_path: Path) -> None:
    done = inside(program, tmp_path, f"cat {path}")

    assert done.returncode != 0
    assert done.stdout == b""


def test_a_secret_beside_the_folder_cannot_be_read(program: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the user")
    (tmp_path / "build").mkdir()

    done = inside(program, tmp_path / "build", "cat ../secret; ls ..; ln ../secret here; cp ../secret here")

    assert b"of the user" not in done.stdout
    assert list((tmp_path / "build").iterdir()) == []


def test_nothing_outside_its_folder_is_written_changed_or_removed(program: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "build").mkdir()
    script = "echo x > ../made; echo x > ../kept; rm ../kept; mv ../kept ../gone; chmod 777 ../kept; mkdir ../folder"

    inside(program, tmp_path / "build", script)

    assert sorted(p.name for p in tmp_path.iterdir()) == ["build", "kept"]
    assert (tmp_path / "kept").read_text() == "kept"


def test_no_connection_leaves(program: Path, tmp_path: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(0.5)
        port = server.getsockname()[1]
        done = inside(program, tmp_path, f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo out")
        assert b"out" not in done.stdout
        with pytest.raises(TimeoutError):
            server.accept()


PARENT = "import subprocess, sys; subprocess.run(sys.argv[1:]); print('the parent lives')"
"""Starts what it is given, as the harness starts the compiler, and says so when it has outlived it."""


@pytest.mark.parametrize("contained", [True, False], ids=["contained", "control"])
@pytest.mark.parametrize("signal_", ["KILL", "TERM", "STOP"])
def test_the_parent_and_others_get_no_signal(
    signal_: str, contained: bool, program: Path, tmp_path: Path
) -> None:
    """Uncontained, the same script ends its parent and a bystander: the test would see it."""
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        script = f"kill -{signal_} {bystander.pid}; kill -{signal_} $PPID"
        argv = [BASH, "-c", script]
        if contained:
            argv = compile_argv(program, argv, Bounds((), tmp_path, 10), unsafe=False)

        for seconds in (60,) if contained else (2, 8, 32):  # a parent that is stopped never ends by itself
            done = run(
                [sys.executable, "-c", PARENT, *argv],
                timeout_s=seconds,
                cwd=tmp_path,
                env=compiler_environment("/usr/bin/g++", tmp_path),
            )
            if _state(bystander) != "as it was":
                break

        assert (b"the parent lives" in done.stdout) == contained, done
        assert (_state(bystander) == "as it was") == contained
    finally:
        bystander.kill()
        bystander.wait()


def _state(process: "subprocess.Popen[bytes]") -> str:
    ended = process.poll() is not None
    stopped = not ended and Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "Tt"
    return "ended" if ended else "stopped" if stopped else "as it was"


def test_an_endless_loop_ends_by_its_processor_time(program: Path, tmp_path: Path) -> None:
    began = time.monotonic()

    done = inside(program, tmp_path, "while :; do :; done", cpu_s=1)

    assert not done.ok
    assert time.monotonic() - began < 25


def test_a_file_has_a_bound(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contain, "COMPILE_FILE", 1 << 20)

    done = inside(program, tmp_path, "head -c 3000000 /dev/urandom > big")

    assert not done.ok
    assert (tmp_path / "big").stat().st_size <= 1 << 20


def test_memory_has_a_bound(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contain, "COMPILE_MEMORY", 200 << 20)

    done = inside(
        program, tmp_path, "v=x; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do v=$v$v$v$v; done; echo ${#v}"
    )

    assert not done.ok or int(done.stdout) < 200 << 20


INCBIN = {
    "by a section's name": 'extern "C" __attribute__((used, section(".data\\n.incbin \\"FILE\\"\\n.section .more#"))) int leak = 1;\n',
    "by an alias": 'extern "C" __device__ int leak __asm__("leak\\n.incbin \\"FILE\\"\\n") = 1;\n',
    "by inline assembly": 'asm(".incbin \\"FILE\\"");\n',
}


@pytest.mark.parametrize("before", INCBIN.values(), ids=INCBIN.keys())
@pytest.mark.parametrize("file", ["/etc/passwd", "SECRET"])
def test_the_assembler_reads_no_file_for_a_kernel(
    before: str, file: str, cpu: CpuExecutor, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root:of-the-user")
    text = before.replace("FILE", str(secret) if file == "SECRET" else file)
    case = Case("leak", "y[0] = 1.0f;", before=text, shape=Shape(n=1, block=(1, 1, 1)), mode="plain")

    result = case.run(cpu)

    assert isinstance(result, (JobFault, JobNotRun)), result
    assert "root:" not in repr(result)


BOMBS = {
    "template recursion": (
        "template <int N, class T> struct A { static constexpr int v = A<N - 1, int>::v + A<N - 1, float>::v + A<N - 2, T*>::v; };\n"
        "template <class T> struct A<0, T> { static constexpr int v = 1; };\ntemplate <class T> struct A<-1, T> { static constexpr int v = 1; };\n",
        "y[0] = A<400, int>::v;",
    ),
    "a constant that never ends": (
        "constexpr unsigned long f(unsigned long n) { unsigned long s = 0; for (unsigned long i = 0; i < n; ++i) s += i * s + 1; return s; }\n",
        "constexpr unsigned long v = f(200000); y[0] = (float)v;",
    ),
}


@pytest.mark.parametrize(("before", "body"), BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_for_the_compiler_ends_soon_and_blames_nobody_else(
    before: str, body: str, cpu: CpuExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "KERNEL_CPU_S", 4)
    began = time.monotonic()

    result = Case("bomb", body, before=before, shape=Shape(n=1, block=(1, 1, 1)), mode="plain").run(cpu)

    assert isinstance(result, (JobOk, JobFault, JobNotRun)), result
    if isinstance(result, JobFault):
        assert result.fault == "compile"
    assert time.monotonic() - began < 60


def test_without_any_sandbox_nothing_foreign_is_compiled(
    cpu: CpuExecutor, own_builds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launcher that reports what the real one does where seccomp is missing."""
    Case("warm", "y[0] = 9.0f;", shape=Shape(n=1, block=(1, 1, 1)), mode="plain").run(cpu)
    if bubblewrap() is not None:
        pytest.skip("bubblewrap contains it here")
    refusing = tmp_path / "refusing"
    refusing.write_text(
        '#!/bin/sh\n[ $1 = 1 ] || exit 97\nwhile [ $1 != -- ]; do shift; done\nshift\nexec "$@"\n'
    )
    refusing.chmod(0o755)
    monkeypatch.setattr("cuda_harness.tools.execute.cpu.build.launcher", lambda _cache: refusing)
    case = Case("any", "y[0] = 8.5f;", shape=Shape(n=1, block=(1, 1, 1)), mode="plain")

    with pytest.raises(SandboxUnavailable) as caught:
        case.run(CpuExecutor(cache=own_builds))
    assert caught.value.remedy
    result = case.run(CpuExecutor(cache=own_builds, unsafe=True))
    assert isinstance(result, JobOk), result


def test_bubblewrap_surrounds_both_where_it_works(builds: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if bubblewrap() is None:
        pytest.skip("bubblewrap may not make namespaces here")

    result = Case("any", "y[0] = 2.0f;", shape=Shape(n=1, block=(1, 1, 1)), mode="check").run(
        CpuExecutor(cache=builds)
    )

    assert isinstance(result, JobOk), result
    assert contain.bubblewrapped(["/usr"])[0].endswith("bwrap")
