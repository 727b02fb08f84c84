"""Foreign code tries to get out: by C functions, by constructors, and by raw system calls as bytes in the text."""

import os
import socket
import time
from pathlib import Path

import numpy as np
import pytest
from tests.integration.cpu.programs import HEAD, Case, Shape, kernel

from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.protocol import Job, JobFault, JobNotRun, JobOk

# A function made of bytes: mov rax, rdi; mov rdi, rsi; mov rsi, rdx; mov rdx, rcx; mov r10, r8; syscall; ret
SYSCALL = (
    'extern "C" __attribute__((section(".text#"), used)) const unsigned char raw_bytes[] = {\n'
    "  0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6, 0x48, 0x89, 0xca, 0x4d, 0x89, 0xc2, 0x0f, 0x05, 0xc3};\n"
    "typedef long (*call_t)(long, long, long, long, long);\n"
    "__device__ long call(long n, long a, long b, long c) { return ((call_t)(void*)raw_bytes)(n, a, b, c, 0); }\n"
)
SHAPE = Shape(n=1, block=(1, 1, 1))


def attack(body: str, *, before: str = "", deadline_s: float = 15.0) -> Case:
    return Case("attack", body, before=before, shape=SHAPE, mode="plain", deadline_s=deadline_s)


HOST_FUNCTIONS = [
    ("environment", 'extern "C" char* getenv(const char*);\n', 'char* p = getenv("PATH");\ny[0] = p ? p[0] : 0;'),
    ("shell", 'extern "C" int system(const char*);\n', 'y[0] = system("true");'),
    ("fork", 'extern "C" int fork();\n', "y[0] = fork();"),
    ("open", 'extern "C" int open(const char*, int, ...);\n', 'y[0] = open("/etc/passwd", 0);'),
    ("kill", 'extern "C" int kill(int, int);\nextern "C" int getppid();\n', "y[0] = kill(getppid(), 9);"),
    ("dlsym", 'extern "C" void* dlsym(void*, const char*);\n', 'y[0] = dlsym(nullptr, "system") != nullptr;'),
    ("exit", 'extern "C" void _exit(int);\n', "_exit(0);"),
    ("heap", 'extern "C" void* malloc(unsigned long);\n', "y[0] = malloc(8) != nullptr;"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "before", "body"), HOST_FUNCTIONS, ids=[h[0] for h in HOST_FUNCTIONS])
def test_a_host_function_is_refused_before_anything_is_loaded(
    name: str, before: str, body: str, cpu: CpuExecutor
) -> None:
    result = attack(body, before=before).run(cpu)

    assert not isinstance(result, JobOk), result
    if isinstance(result, JobFault):
        assert result.fault == "policy", result


def test_a_constructor_never_runs(tmp_path: Path, cpu: CpuExecutor) -> None:
    before = "__device__ int seen = 0;\nstruct S { S() { seen = 7; } };\nS object;\n"

    result = attack("y[0] = seen;", before=before).run(cpu)

    assert not isinstance(result, JobOk), result


def test_a_constructor_by_attribute_never_runs(cpu: CpuExecutor) -> None:
    before = "__device__ int seen = 0;\n__attribute__((constructor)) static void early() { seen = 7; }\n"

    result = attack("y[0] = seen;", before=before).run(cpu)

    assert not isinstance(result, JobOk), result


def test_an_indirect_function_never_resolves(cpu: CpuExecutor) -> None:
    before = (
        '__device__ float one() { return 1.0f; }\nextern "C" void* pick() { return (void*)one; }\n'
        'extern "C" float f() __attribute__((ifunc("pick")));\n'
    )

    result = attack("y[0] = f();", before=before).run(cpu)

    assert not isinstance(result, JobOk), result


RAW = [
    ("open a file", 'y[0] = call(2, (long)"/etc/passwd", 0, 0);'),
    ("openat", 'y[0] = call(257, -100, (long)"/etc/passwd", 0);'),
    ("socket", "y[0] = call(41, 2, 1, 0);"),
    ("fork", "y[0] = call(57, 0, 0, 0);"),
    ("clone", "y[0] = call(56, 17, 0, 0);"),
    ("execve", 'y[0] = call(59, (long)"/bin/true", 0, 0);'),
    ("kill the parent", "y[0] = call(62, call(110, 0, 0, 0), 9, 0);"),
    ("ptrace", "y[0] = call(101, 16, call(110, 0, 0, 0), 0);"),
    ("memfd_create", 'y[0] = call(319, (long)"m", 0, 0);'),
    ("io_uring_setup", "y[0] = call(425, 1, 0, 0);"),
    ("raise a limit", "y[0] = call(160, 9, (long)x, 0);"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "body"), RAW, ids=[r[0] for r in RAW])
def test_a_raw_system_call_ends_the_child(name: str, body: str, cpu: CpuExecutor) -> None:
    result = attack(body, before=SYSCALL).run(cpu)

    assert isinstance(result, (JobFault, JobNotRun)), result
    if isinstance(result, JobFault):
        assert result.fault in {"crash", "policy", "out_of_bounds"}, result


# The bytes of `mov rax, rdi; syscall; ret` inside the constant of an ordinary instruction, entered in its middle.
HIDDEN = (
    "__device__ __noinline__ unsigned long long hide() { return 0x9090c3050ff88948ull; }\n"
    "__device__ long jump(long n) {\n"
    "  const unsigned char* p = (const unsigned char*)(void*)hide;\n"
    "  while (p[0] != 0x48 || p[1] != 0x89 || p[2] != 0xf8) ++p;\n"
    "  return ((long (*)(long))(void*)p)(n);\n}\n"
)


@pytest.mark.parametrize("number", [1, 2, 9, 41, 56, 57, 59, 62, 101, 200, 231, 257, 319])
def test_a_system_call_from_the_kernels_own_text_is_trapped(number: int, cpu: CpuExecutor) -> None:
    """The static checks see nothing here; the filter knows that only the C library makes system calls."""
    result = attack(f"y[0] = jump({number});", before=HIDDEN).run(cpu)

    assert isinstance(result, JobFault), result
    assert result.fault == "crash"
    assert f"system call ({number})" in result.message


def test_the_executor_still_runs_honest_kernels_after_attacks(cpu: CpuExecutor) -> None:
    attack("y[0] = call(57, 0, 0, 0);", before=SYSCALL).run(cpu)

    result = attack("y[0] = 3.0f;").run(cpu)

    assert isinstance(result, JobOk), result
    assert result.calls[0].arrays["y"].tolist() == [3.0]


def test_a_forged_report_is_not_believed(cpu: CpuExecutor) -> None:
    """Writing a verdict into every descriptor and leaving does not make a result."""
    text = '{\\"status\\":\\"ok\\",\\"seconds\\":0,\\"unwritten\\":[{\\"y\\":0}],\\"warnings\\":[]}\\n'
    body = f'const char t[] = "{text}";\nfor (int fd = 3; fd < 40; ++fd) call(1, fd, (long)t, sizeof t - 1);\ncall(231, 0, 0, 0);'

    result = attack(body, before=SYSCALL).run(cpu)

    assert not isinstance(result, JobOk), result


def test_the_parents_environment_stays_behind(cpu: CpuExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack above the runner's frames holds its environment: a key of the user is not there."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-user")
    body = 'y[0] = call(1, 2, (long)"probe", 5);'

    result = attack(body, before=SYSCALL).run(cpu)

    assert "sk-secret" not in repr(result)
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    assert children.read_text().strip() == "" or isinstance(result, (JobFault, JobOk, JobNotRun))


def test_an_endless_loop_ends_at_its_deadline(cpu: CpuExecutor) -> None:
    began = time.monotonic()

    result = attack("volatile int go = 1;\nwhile (go) {}\ny[0] = 1;", deadline_s=2.0).run(cpu)

    assert isinstance(result, JobFault), result
    assert result.fault == "timeout"
    assert "k did not end" in result.message
    assert time.monotonic() - began < 12


def test_filling_memory_is_stopped(cpu: CpuExecutor) -> None:
    body = "for (long i = 0; i < 1 << 20; ++i) if (call(9, 0, 1l << 32, 3) == -12) break;\ny[0] = 1;"

    result = attack(body, before=SYSCALL).run(cpu)

    assert isinstance(result, (JobFault, JobNotRun, JobOk)), result
    honest = attack("y[0] = 2.0f;").run(cpu)
    assert isinstance(honest, JobOk), honest


def test_filling_the_disk_is_stopped(cpu: CpuExecutor, tmp_path: Path) -> None:
    target = tmp_path / "filled"
    body = f'y[0] = call(2, (long)"{target}", 0101, 0644);'

    attack(body, before=SYSCALL).run(cpu)

    assert not target.exists()


def test_a_listener_hears_nothing(cpu: CpuExecutor) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(0.5)
        attack("y[0] = call(42, call(41, 2, 1, 0), (long)x, 16);", before=SYSCALL).run(cpu)
        with pytest.raises(TimeoutError):
            server.accept()


def test_no_child_and_no_file_stays_behind(own_builds: Path) -> None:
    executor = CpuExecutor(cache=own_builds)
    attack("y[0] = 1.25f;").run(executor)
    attack("y[0] = call(57, 0, 0, 0);", before=SYSCALL).run(executor)

    assert not [p for p in own_builds.rglob("build-*") if p.is_dir()]
    assert not list(Path("/dev/shm").glob("cuda-harness*"))


def test_a_policy_violation_never_reaches_the_compiler(cpu: CpuExecutor) -> None:
    source = '#include "/etc/passwd"\n' + kernel("y[0] = 1.0f;")

    result = cpu.run(Job(source, SHAPE.program(), ({"x": np.ones(1, np.float32)},)))

    assert isinstance(result, JobFault), result
    assert result.fault == "policy"
    assert HEAD.startswith('extern "C"')


@pytest.mark.parametrize("workers", [2, 16, 32])
def test_many_workers_run_behind_the_sandbox(workers: int, builds: Path, cpu: CpuExecutor) -> None:
    """A ninth arena of malloc made a newer C library read files, which the sandbox once answered with the end."""
    shape = Shape(n=1 << 15, grid=(128, 1, 1), block=(256, 1, 1))
    case = Case(
        "wide",
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\n__syncthreads();\ny[i] = 2 * x[i];",
        shape=shape,
    )

    result = case.run(CpuExecutor(cache=builds, workers=workers), "plain")

    assert isinstance(result, JobOk), result
    np.testing.assert_array_equal(result.calls[0].arrays["y"], 2 * (np.arange(1 << 15, dtype=np.float32) + 1))
    assert cpu.name == "cpu"
