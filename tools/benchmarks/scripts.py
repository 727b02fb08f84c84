"""A task's gen.py and compare.py, run in containment."""

import sys
from dataclasses import dataclass
from pathlib import Path

from cuda_harness.tools.benchmarks.contain import run_contained
from cuda_harness.tools.benchmarks.task import Task

CHILD = Path(__file__).resolve().parent / "script_child.py"
GEN_SECONDS = 180.0
COMPARE_SECONDS = 60.0
_QUIET = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


@dataclass(frozen=True)
class Told:
    """How a script ended."""

    ok: bool
    """It ended with 0 in time."""
    stdout: str
    message: str
    """The end of what it complained of."""


def run_script(text: str, folder: Path, *, seed: int | None, timeout_s: float, unsafe: bool = False) -> Told:
    """Run a script of the benchmark in `folder`, the only place it may write to.

    Args:
        text: The script.
        folder: Its working folder.
        seed: Mixed into whatever it seeds with; `None`: run as it is.
        timeout_s: Wall seconds.
        unsafe: Run it also where it cannot be contained.
    """
    script = folder / "script.py"
    script.write_text(text, encoding="utf-8")
    argv = [sys.executable, "-P", str(CHILD), str(script), *([str(seed)] if seed is not None else [])]
    done = run_contained(
        argv, folder=folder, timeout_s=timeout_s, readable=(CHILD,), environment=_QUIET, unsafe=unsafe
    )
    script.unlink(missing_ok=True)
    message = done.text().strip()[-600:] if not done.ok else ""
    if done.status == "timed_out":
        message = f"it did not end within {timeout_s:.0f} s"
    return Told(done.ok, done.stdout.decode("utf-8", "replace"), message)


@dataclass(frozen=True)
class Data:
    """What gen.py left: inputs and what is expected, apart."""

    inputs: dict[str, bytes]
    """By file name of the task's inputs."""
    others: dict[str, bytes]
    """Every other file under `data/`, by relative path: what is expected lies here."""


def make_data(task: Task, folder: Path, *, seed: int | None, unsafe: bool = False) -> Data | str:
    """Return what gen.py makes in the empty `folder`, or why it cannot be used."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    told = run_script(task.gen, folder, seed=seed, timeout_s=GEN_SECONDS, unsafe=unsafe)
    if not told.ok:
        return f"gen.py failed: {told.message}"
    inputs: dict[str, bytes] = {}
    others: dict[str, bytes] = {}
    named = {t.path: t for t in task.inputs}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        relative = str(path.relative_to(folder))
        (inputs if relative in named else others)[relative] = path.read_bytes()
    for relative, tensor in named.items():
        if relative not in inputs:
            return f"gen.py wrote no {relative}"
        if len(inputs[relative]) != tensor.bytes:
            return f"gen.py wrote {len(inputs[relative])} bytes to {relative}, the task says {tensor.bytes}"
    return Data(inputs, others)


def official_verdict(
    task: Task, folder: Path, data: Data, outputs: dict[str, bytes], *, unsafe: bool = False
) -> tuple[bool, str]:
    """Return what compare.py says of outputs, by the benchmark's own rule, and what it printed.

    The rule: it ends without an exception and prints no letter F.
    """
    for relative, content in {**data.inputs, **data.others, **outputs}.items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    told = run_script(task.compare, folder, seed=None, timeout_s=COMPARE_SECONDS, unsafe=unsafe)
    shown = (told.stdout.strip() or told.message)[-300:]
    return told.ok and "F" not in told.stdout, shown
