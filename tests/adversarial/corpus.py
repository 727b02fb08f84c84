"""Where the kernels of the library and of the adversarial corpus lie, and one admitted small size of each."""

import itertools
import json
from pathlib import Path
from typing import Any

from cuda_harness.state.ir import Dim, KernelIR
from cuda_harness.tools.execute.protocol import Executor

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "examples" / "kernels"
ADVERSARIAL = ROOT / "tests" / "adversarial"


def library() -> list[Path]:
    """Return the folders of the library, sorted."""
    return sorted(p.parent for p in LIBRARY.glob("*/ir.json"))


def wrong() -> list[Path]:
    """Return the folders of bundles that must be rejected, sorted."""
    return sorted(p.parent for p in ADVERSARIAL.glob("*/case.json"))


def honest() -> list[Path]:
    """Return the folders of bundles that look wrong and are right, sorted."""
    return sorted(p.parent for p in (ADVERSARIAL / "honest").glob("*/case.json"))


def without_sanitizer(executor: Executor) -> None:
    """Take from a GPU's executor the jobs in files that the sanitizer stage needs: it is not measured then, and takes no time."""
    # Protocols look at the class first: an attribute of the object alone would change nothing.
    executor.__class__ = type("Unsanitized", (type(executor),), {"write_job": None})


def case(folder: Path) -> dict[str, Any]:
    """Return what is expected of an adversarial bundle."""
    loaded: dict[str, Any] = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    return loaded


def name(folder: Path) -> str:
    """Return a test's id."""
    return folder.name


def small_dims(ir: KernelIR) -> dict[str, int]:
    """Return sizes around five to twenty, different for each dim where the IR lets them be."""
    candidates = [_near(dim, 5 + 2 * place) for place, dim in enumerate(ir.dims)]
    for combination in itertools.product(*candidates):
        dims = {d.name: n for d, n in zip(ir.dims, combination, strict=True)}
        if ir.admits(dims):
            return dims
    return ir.target_dims


def _near(dim: Dim, wanted: int) -> list[int]:
    admitted = [n for n in range(max(dim.min, 1), dim.min + 72) if dim.admits(n)]
    return sorted(admitted, key=lambda n: abs(n - wanted))[:6] or [dim.value]
