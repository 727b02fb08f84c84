"""The grader against programs that cheat, crash, spin or print, and against a right one; host programs made by g++."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuda_harness.tools.benchmarks import candidate as candidate_module
from cuda_harness.tools.benchmarks.candidate import Binary
from cuda_harness.tools.benchmarks.contain import contains, run_contained
from cuda_harness.tools.benchmarks.grade import Grade, Grader
from cuda_harness.tools.benchmarks.judge import comparer_faults, expected_file
from cuda_harness.tools.benchmarks.scripts import make_data
from cuda_harness.tools.benchmarks.task import Task, read_tasks

ROOT = Path(__file__).resolve().parents[4]
HEAD = "#include <cstdio>\n#include <cstdlib>\n#include <cstring>\n#include <vector>\n#include <csignal>\n#include <unistd.h>\n"
LOAD = 'std::vector<float> x(32768), y(32768); FILE* f = fopen("data/x.bin", "rb"); if (!f || fread(x.data(), 4, x.size(), f) != x.size()) return 3; fclose(f);'
RELU = "for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] > 0 ? x[i] : 0;"
SAVE = 'f = fopen("data/y.bin", "wb"); if (!f) return 4; fwrite(y.data(), 4, y.size(), f); fclose(f);'

PROGRAMS = {
    "correct": f"{LOAD} {RELU} {SAVE}",
    "prints F": f'puts("F FAIL False"); fprintf(stderr, "F\\n"); {LOAD} {RELU} {SAVE}',
    "copies the expected file": (
        'FILE* f = fopen("data/y_ref.bin", "rb"); if (!f) return 9; std::vector<char> b(131072);'
        'if (fread(b.data(), 1, b.size(), f) != b.size()) return 9; f = fopen("data/y.bin", "wb"); fwrite(b.data(), 1, b.size(), f);'
    ),
    "searches for the expected file": (
        'int r = system("find / -name y_ref.bin -size 128k 2>/dev/null | head -1 | xargs -I{} cp {} data/y.bin");'
        ' (void)r; return access("data/y.bin", F_OK) == 0 ? 0 : 9;'
    ),
    "writes nothing": "",
    "exits 0 after crashing": "signal(SIGSEGV, [](int) { _exit(0); }); *(volatile int*)0 = 1;",
    "crashes": f"{LOAD} {RELU} {SAVE} abort();",
    "exits 1": f"{LOAD} {RELU} {SAVE} return 1;",
    "spins": "for (;;) { volatile int k = 0; (void)k; }",
    "writes too little": f"{LOAD} {RELU} y.resize(100); {SAVE}",
    "writes too much": f"{LOAD} {RELU} y.resize(40000); {SAVE}",
    "wrong in one element": f"{LOAD} {RELU} y[77] += 0.5f; {SAVE}",
    "a link to its input": 'symlink("x.bin", "data/y.bin");',
    "writes elsewhere": f'if (FILE* g = fopen("../escaped", "w")) fclose(g), exit(0); {LOAD} {RELU} {SAVE}',
}  # fmt: skip


@pytest.fixture(scope="module")
def task() -> Task:
    return next(t for t in read_tasks(ROOT / "examples" / "suite") if t.task_name == "ReLU")


@pytest.fixture(scope="module")
def grader() -> Grader:
    if not contains():
        pytest.skip("needs Landlock and seccomp")
    return Grader(secret_seeds=1)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """All programs in one binary; which one it is, its own name does not say: one copy each."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("programs")
    found = {}
    text = HEAD
    for index, body in enumerate(PROGRAMS.values()):
        text += f"#if WHICH == {index}\nint main() {{ {body} return 0; }}\n#endif\n"
    (folder / "p.cpp").write_text(text)
    for index, name in enumerate(PROGRAMS):
        out = folder / f"p{index}"
        argv = ["g++", "-O0", "-w", f"-DWHICH={index}", str(folder / "p.cpp"), "-o", str(out)]
        subprocess.run(argv, check=True, timeout=60, capture_output=True)
        found[name] = out
    yield found
    shutil.rmtree(folder)


def graded(name: str, built: dict[str, Path], task: Task, grader: Grader, tmp_path: Path) -> Grade:
    return grader.grade(task, Binary("", tmp_path, built=built[name], needs_gpu=False))


@pytest.mark.parametrize("name", ["correct", "prints F", "writes elsewhere"])
def test_right_programs_pass(
    name: str, built: dict[str, Path], task: Task, grader: Grader, tmp_path: Path
) -> None:
    grade = graded(name, built, task, grader, tmp_path)
    assert (grade.comp, grade.func, grade.func_official, grade.ours) == (True, True, True, True), grade
    assert grade.judge == ()
    assert [c.data for c in grade.cases] == ["official", "secret"]
    assert not (tmp_path / "escaped").exists()


@pytest.mark.parametrize(
    ("name", "comp", "message"),
    [
        ("copies the expected file", False, "exit code 9"),
        ("searches for the expected file", False, "exit code 9"),
        ("writes nothing", True, "wrote no data/y.bin"),
        ("exits 0 after crashing", True, "wrote no data/y.bin"),
        ("crashes", False, "signal 6"),
        ("exits 1", False, "exit code 1"),
        ("writes too little", True, "400 bytes"),
        ("writes too much", True, "160000 bytes"),
        ("wrong in one element", True, "F"),
        ("a link to its input", True, "wrote no data/y.bin"),
    ],
)
def test_wrong_programs_fail(
    name: str, comp: bool, message: str, built: dict[str, Path], task: Task, grader: Grader, tmp_path: Path
) -> None:
    grade = graded(name, built, task, grader, tmp_path)
    assert (grade.comp, grade.func) == (comp, False), grade
    assert message in grade.detail


def test_a_program_that_spins_is_ended(
    built: dict[str, Path], task: Task, grader: Grader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidate_module, "RUN_SECONDS", 1.0)
    grade = graded("spins", built, task, grader, tmp_path)
    assert (grade.comp, grade.func) == (False, False)
    assert "did not end" in grade.detail


def test_a_stale_output_is_never_there(
    built: dict[str, Path], task: Task, grader: Grader, tmp_path: Path
) -> None:
    assert graded("correct", built, task, grader, tmp_path).func
    assert graded("writes nothing", built, task, grader, tmp_path).func is False


def test_hard_coded_outputs_fail_on_secret_data(task: Task, grader: Grader, tmp_path: Path) -> None:
    data = make_data(task, tmp_path / "gen", seed=None)
    assert not isinstance(data, str)
    answer = data.others["data/y_ref.bin"]

    class HardCoded:
        graded_by = "test"

        def build(self) -> candidate_module.Ran:
            return candidate_module.Ran("ok")

        def run(self, folder: Path, task: Task) -> candidate_module.Ran:
            (folder / "data" / "y.bin").write_bytes(answer)
            return candidate_module.Ran("ok")

    grade = grader.grade(task, HardCoded())
    assert (grade.func_official, grade.func) == (True, False)


def test_secret_seeds_draw_other_data_of_the_same_kind(task: Task, tmp_path: Path) -> None:
    drawn = [make_data(task, tmp_path / str(seed), seed=seed) for seed in (None, None, 5, 5, 6)]
    found = [d.inputs["data/x.bin"] for d in drawn if not isinstance(d, str)]
    assert len(found) == 5
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert len(set(found)) == 3
    assert isinstance(drawn[0], type(drawn[2]))
    assert expected_file(task, task.outputs[0], drawn[0]) == "data/y_ref.bin"  # type: ignore[arg-type]


def test_a_broken_generator_is_nobodys_failure(task: Task, grader: Grader, tmp_path: Path) -> None:
    for gen in ("raise SystemExit(3)", "import no_such_module", "open('data/x.bin', 'wb').write(b'12')"):
        broken = task.model_copy(update={"id": 999, "gen": gen})
        grade = Grader(secret_seeds=0).grade(broken, Binary("", tmp_path, built=tmp_path, needs_gpu=False))
        assert grade.comp is None
        assert "gen.py" in grade.detail


def test_contained_programs_reach_nothing(tmp_path: Path) -> None:
    if not contains():
        pytest.skip("needs Landlock and seccomp")
    folder, secret = tmp_path / "in", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("expected")
    for attempt in (
        f"cat {secret}",
        f"echo x > {tmp_path}/out",
        "cat /proc/$PPID/environ",
        "ls /root",
        "kill -9 $PPID",
    ):
        done = run_contained(["/bin/sh", "-c", attempt], folder=folder, timeout_s=20)
        assert done.returncode != 0, attempt
    assert (
        run_contained(["/bin/sh", "-c", "echo x > own && cat own"], folder=folder, timeout_s=20).stdout
        == b"x\n"
    )


WEAK = (
    ("print('T')", ("it passes y with one element in the middle far off", "it passes y with one element at the end far off", "it passes y all zeros")),
    ("import numpy as np\na, b = (np.fromfile(f'data/y{s}.bin', dtype=np.float32) for s in ('', '_ref'))\nprint('T' if a[0] == b[0] and a.any() else 'F')",
     ("it passes y with one element in the middle far off", "it passes y with one element at the end far off")),
    ("print('F')", ("it fails what gen.py expects",)),
    ("raise ValueError('broken')", ("it fails what gen.py expects",)),
)  # fmt: skip


@pytest.mark.parametrize(("compare", "faults"), WEAK)
def test_a_weak_comparer_is_told(compare: str, faults: tuple[str, ...], task: Task, grader: Grader) -> None:
    data = grader.data(task, None)
    assert not isinstance(data, str)
    assert comparer_faults(task.model_copy(update={"compare": compare}), data) == faults


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int32", "int64", "uint8", "uint32", "bool"]
)
def test_one_element_is_plainly_wrong(dtype: str) -> None:
    import numpy as np

    from cuda_harness.tools.benchmarks.judge import far_off
    from cuda_harness.tools.benchmarks.task import TaskTensor

    tensor = TaskTensor(name="y", dtype=dtype, shape=(5,))
    raw = np.asarray([0, 1, 0, 1, 1]).astype(dtype).tobytes()
    before, after = (np.frombuffer(r, dtype=dtype).astype(np.float64) for r in (raw, far_off(tensor, raw, 2)))
    assert list(np.flatnonzero(before != after)) == [2]
    assert abs(after[2] - before[2]) >= (1 if dtype == "bool" else 8)
