"""What exports say of themselves, refuse, and hold; nothing here needs a GPU."""

import ast
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cuda_harness.graph.cli import app
from cuda_harness.state.errors import ConfigError
from cuda_harness.state.results import StageResult, Verdict
from cuda_harness.tools.export.cuda_core import cuda_core_module, device_text
from cuda_harness.tools.export.exported.arrays import ArrayView
from cuda_harness.tools.export.exported.expressions import KernelError
from cuda_harness.tools.export.exported.kernel import CudaKernel
from cuda_harness.tools.export.exported.plan import typed
from cuda_harness.tools.export.forms import write_export
from cuda_harness.tools.export.standalone import standalone
from cuda_harness.tools.export.subject import load_subject
from cuda_harness.tools.export.torch_package import torch_package
from cuda_harness.tools.toolchain.headers import include_folders
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.verify.bundle import load_bundle

ROOT = Path(__file__).resolve().parents[4]
KERNELS = ROOT / "examples" / "kernels"
NVCC_SAMPLE = ("conv1d_constant", "fp8_quantize", "persistent_grid")


def bundle_with_verdict(folder: Path, *, outcome: str = "accepted", name: str = "axpy") -> Path:
    shutil.copytree(KERNELS / name, folder, dirs_exist_ok=True)
    verdict = Verdict.model_validate(
        {
            "outcome": outcome, "executor": "cpu", "target": "sm_90a", "sha256": load_bundle(folder).hashes,
            "stages": [StageResult(name="shapes", status="passed", detail="15 cases", covered={"n": [0, 1, 33]}),
                       StageResult(name="sanitizer", status="not_measured", detail="needs a GPU")],
        }
    )  # fmt: skip
    (folder / "verdict.json").write_text(verdict.to_json())
    return folder


def test_a_verdict_on_these_very_files_verifies(tmp_path: Path) -> None:
    subject = load_subject(bundle_with_verdict(tmp_path), allow_unverified=False)
    assert subject.verified
    text = standalone(subject).head
    assert "VERIFIED on cpu" in text
    assert "shapes: passed (15 cases)" in text
    assert "sanitizer: not measured (needs a GPU)" in text


def test_an_edited_kernel_is_unverified(tmp_path: Path) -> None:
    folder = bundle_with_verdict(tmp_path)
    (folder / "kernel.cu").write_text((folder / "kernel.cu").read_text() + "// touched\n")
    with pytest.raises(ConfigError, match="no verdict covers these files"):
        load_subject(folder, allow_unverified=False)
    subject = load_subject(folder, allow_unverified=True)
    assert "UNVERIFIED: no verdict covers these files" in standalone(subject).head


def test_a_rejected_kernel_is_unverified(tmp_path: Path) -> None:
    folder = bundle_with_verdict(tmp_path, outcome="rejected")
    with pytest.raises(ConfigError, match="the verdict is rejected"):
        load_subject(folder, allow_unverified=False)


@pytest.mark.parametrize(("form", "out"), [("standalone", "a.cu"), ("cuda-core", "a.py"), ("torch", "a")])
def test_every_form_marks_what_is_unverified(form: str, out: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["export", str(KERNELS / "axpy"), "--as", form, "--out", str(tmp_path / out)]
    )
    assert done.exit_code == 2
    assert not (tmp_path / out).exists()
    arguments = [
        "export",
        str(KERNELS / "axpy"),
        "--as",
        form,
        "--out",
        str(tmp_path / out),
        "--unverified",
        "--json",
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["verified"] is False
    files = [tmp_path / out] if form != "torch" else sorted((tmp_path / out).rglob("*.py"))
    assert all("UNVERIFIED" in f.read_text() for f in files)


@pytest.mark.parametrize(("form", "out"), [("standalone", "a.c"), ("cuda-core", "a-b.py"), ("sycl", "a")])
def test_a_wrong_path_or_form_is_refused(form: str, out: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        write_export(load_subject(KERNELS / "axpy", allow_unverified=True), form, tmp_path / out)


def test_text_of_the_ir_cannot_leave_its_comment(tmp_path: Path) -> None:
    folder = bundle_with_verdict(tmp_path)
    ir = json.loads((folder / "ir.json").read_text())
    ir["summary"] = 'x */ \n#error out\n""" + boom + """ \\'
    (folder / "ir.json").write_text(json.dumps(ir))
    subject = load_subject(folder, allow_unverified=True)
    assert all(line.startswith("//") for line in standalone(subject).head.splitlines())
    compiler = Compiler()
    try:
        module = cuda_core_module(subject, arch="sm_90a", compiler=compiler)
    finally:
        compiler.close()
    assert "boom" in (ast.get_docstring(ast.parse(module)) or "")


def test_fixed_sizes_take_no_size_argument() -> None:
    subject = load_subject(KERNELS / "axpy", allow_unverified=True)
    assert "--n " in standalone(subject).main
    assert "--n " not in standalone(subject, fixed=True).main
    assert 'given.path("x", "data/in.bin")' in standalone(subject, files={"x": "data/in.bin"}).main


def test_macros_over_sizes_are_checked_at_run_time(tmp_path: Path) -> None:
    folder = bundle_with_verdict(tmp_path)
    plan = json.loads((folder / "plan.json").read_text())
    plan["defines"] = {"COUNT": "n"}
    (folder / "plan.json").write_text(json.dumps(plan))
    subject = load_subject(folder, allow_unverified=True)
    program = standalone(subject)
    assert f"#define COUNT {subject.ir.target_dims['n']}" in program.device
    assert "compile it with -DCOUNT=" in program.main


def test_torch_package_is_valid_and_names_no_module_of_python(compiler: Compiler) -> None:
    files = torch_package(
        load_subject(KERNELS / "copy", allow_unverified=True), arch="sm_90a", compiler=compiler
    )
    assert "copy_kernel/__init__.py" in files
    for name, text in files.items():
        if name.endswith(".py"):
            ast.parse(text)
    assert json.loads(files["evidence.json"])["verified"] is False


def test_torch_refuses_types_that_it_half_knows(compiler: Compiler) -> None:
    with pytest.raises(ConfigError, match="uint"):
        torch_package(
            load_subject(KERNELS / "bit_counts", allow_unverified=True), arch="sm_90a", compiler=compiler
        )


@pytest.mark.parametrize("name", ["axpy", "cub_block_reduce", "matmul_wmma_half"])
def test_the_source_of_a_module_compiles_without_our_headers(name: str) -> None:
    from cuda.core import Program, ProgramOptions

    subject = load_subject(KERNELS / name, allow_unverified=True)
    prelude, source = device_text(subject.kernel)
    folders = [f for f in include_folders() if "toolchain" not in f]
    macros = subject.kernel.plan.default_tunables()
    defines = "".join(f"#define {n} {v}\n" for n, v in macros.items())
    options = ProgramOptions(name="kernel.cu", arch="sm_90a", std="c++17", include_path=folders)
    assert Program(f"{prelude}\n{defines}{source}", "c++", options).compile("cubin").code


@pytest.mark.parametrize("name", NVCC_SAMPLE)
def test_nvcc_compiles_the_program_without_a_warning(name: str, tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    program = standalone(load_subject(KERNELS / name, allow_unverified=True))
    (tmp_path / "p.cu").write_text(program.text)
    argv = [
        "nvcc",
        *program.build,
        "-Werror",
        "all-warnings",
        str(tmp_path / "p.cu"),
        "-o",
        str(tmp_path / "p"),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


class Fake:
    """An array that lives nowhere: only what a kernel asks of it."""

    def __init__(self, typestr: str = "<f4", shape: tuple[int, ...] = (8,), *, address: int = 4096,
                 strides: tuple[int, ...] | None = None) -> None:  # fmt: skip
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": typestr, "data": (address, False), "version": 3, "strides": strides,
        }  # fmt: skip


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((Fake(),), "2 arrays are needed"),
        ((Fake("<f8"), Fake()), "'x' has dtype float64, the kernel takes float32"),
        ((Fake(strides=(8,)), Fake()), "not contiguous"),
        ((Fake(address=4100), Fake()), "multiple of 16"),
        ((Fake(shape=(8, 1)), Fake()), "2 axes"),
        ((Fake(), Fake(shape=(9,))), "n = 9, before it was 8"),
        (([1.0], Fake()), "is a list"),
    ],
)
def test_what_does_not_fit_is_told(arrays: tuple[object, ...], message: str) -> None:
    from cuda_harness.tools.export.cuda_core import load

    subject = load_subject(KERNELS / "axpy", allow_unverified=True)
    with pytest.raises(KernelError, match=message):
        load(subject.ir, subject.kernel)(*arrays)


def test_scalars_are_checked() -> None:
    from cuda_harness.tools.export.cuda_core import load

    subject = load_subject(KERNELS / "axpy", allow_unverified=True)
    with pytest.raises(KernelError, match="unknown scalar 'b'"):
        load(subject.ir, subject.kernel)(Fake(), Fake(), b=1.0)
    with pytest.raises(KernelError, match="does not fit int8"):
        typed(200, "int8", "k")


def test_halves_travel_as_their_bits() -> None:
    assert [typed(v, "float16", "s") for v in (1.0, 65504.0, 1e-8)] == [0x3C00, 0x7BFF, 0]
    assert [typed(v, "bfloat16", "s") for v in (1.0, -2.0)] == [0x3F80, 0xC000]


def test_views_know_scalars_and_empty_arrays() -> None:
    view = ArrayView("x", Fake(shape=(), address=4100))
    assert view.contiguous
    ArrayView("x", Fake(shape=(0, 3), address=0)).check("float32")


def test_code_is_named_by_architecture_and_macros() -> None:
    assert CudaKernel.key("sm_90a", {"A": 1, "B": 2}) == CudaKernel.key("sm_90a", {"B": 2, "A": 1})
    assert CudaKernel.key("sm_90a", {"A": 1}) != CudaKernel.key("sm_90", {"A": 1})


def run_with_best(folder: Path) -> Path:
    """Lay out a finished run as `generate` leaves it: its verdict names no hashes, its result names the kernel's."""
    best = bundle_with_verdict(folder / "best")
    verdict = json.loads((best / "verdict.json").read_text()) | {"sha256": {}}
    (best / "verdict.json").write_text(json.dumps(verdict))
    (folder / "manifest.json").write_text("{}")
    shutil.copy(best / "ir.json", folder / "ir.json")
    kernel = load_bundle(best).kernel
    assert kernel is not None
    document = {"kernel": {"sha256": kernel.sha256}, "verdict": verdict}
    (folder / "result.json").write_text(json.dumps(document))
    return folder


def test_a_runs_best_kernel_is_covered_by_its_result(tmp_path: Path) -> None:
    run = run_with_best(tmp_path)
    assert load_subject(run, allow_unverified=False).verified


@pytest.mark.parametrize("name", ["best/kernel.cu", "best/plan.json", "ir.json", "result.json"])
def test_a_run_whose_files_changed_is_unverified(name: str, tmp_path: Path) -> None:
    run = run_with_best(tmp_path)
    changes = {"best/kernel.cu": lambda t: t + "\n//", "best/plan.json": lambda t: t.replace("256", "128"),
               "ir.json": lambda t: t.replace("in place", "anywhere"), "result.json": lambda _t: "{}"}  # fmt: skip
    path = run / name
    path.write_text(changes[name](path.read_text()))
    with pytest.raises(ConfigError, match="no verdict covers these files"):
        load_subject(run, allow_unverified=False)


def test_a_run_without_a_kernel_is_told(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(ConfigError, match="left no kernel"):
        load_subject(tmp_path, allow_unverified=True)


def test_arrays_of_another_module_keep_types_that_no_interface_spells() -> None:
    from types import SimpleNamespace

    other = SimpleNamespace(buffer=SimpleNamespace(handle=4096), shape=(2, 3), dtype="bfloat16")
    view = ArrayView("x", other)
    assert (view.pointer, view.shape, view.dtype, view.contiguous) == (4096, (2, 3), "bfloat16", True)
