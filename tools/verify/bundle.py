"""A kernel bundle: the folder that `verify` judges, whoever wrote it."""

import json
from dataclasses import dataclass
from pathlib import Path

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.serde import sha256
from cuda_harness.state.suite import Inputs
from cuda_harness.tools.ir.check import check_ir
from cuda_harness.tools.synthesize.specs import misfits

_MAX_SOURCE = 1 << 20


@dataclass(frozen=True)
class Bundle:
    """What a bundle's files say."""

    ir: KernelIR
    source: str
    plan: LaunchPlan | str
    """The plan, or why plan.json is none: the candidate's failure, not the user's."""
    reference: str
    specs: Inputs

    @property
    def kernel(self) -> Kernel | None:
        """The candidate, `None` when its plan cannot be read."""
        return Kernel(source=self.source, plan=self.plan) if isinstance(self.plan, LaunchPlan) else None

    @property
    def hashes(self) -> dict[str, str]:
        """Identity of what is judged."""
        return {
            "ir": sha256(self.ir), "kernel": sha256(self.source),
            "plan": sha256(self.plan if isinstance(self.plan, str) else self.plan.model_dump(mode="json", by_alias=True)),
            "reference": sha256(self.reference),
        }  # fmt: skip


def load_bundle(folder: Path) -> Bundle:
    """Return the bundle in `folder`.

    Raises:
        ConfigError: If it is no bundle: files missing or unreadable, an IR that contradicts itself, inputs.json
            that names unknown tensors. What is wrong with kernel.cu or plan.json is left to the verdict.
    """
    if not folder.is_dir():
        msg = f"{str(folder)!r} is not a folder"
        raise ConfigError(
            msg, remedy="give the folder of a bundle: ir.json, kernel.cu, plan.json, reference.py"
        )
    missing = [n for n in ("ir.json", "kernel.cu", "plan.json", "reference.py") if not (folder / n).is_file()]
    if missing:
        msg = f"the bundle {str(folder)!r} lacks {', '.join(missing)}"
        raise ConfigError(
            msg, remedy="a bundle is a folder with ir.json, kernel.cu, plan.json and reference.py"
        )
    ir = KernelIR.read(folder / "ir.json")
    faults = check_ir(ir)
    if faults:
        msg = f"{str(folder / 'ir.json')!r} contradicts itself:\n" + "\n".join(f"  {f}" for f in faults[:8])
        raise ConfigError(msg, remedy="mend the IR")
    try:
        plan: LaunchPlan | str = LaunchPlan.read(folder / "plan.json")
    except ConfigError as exc:
        if "is not readable here" in exc.message:
            raise
        plan = exc.message.replace(str(folder) + "/", "")
    specs = Inputs()
    if (folder / "inputs.json").is_file():
        text = _text(folder / "inputs.json")
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as exc:
            msg = f"{str(folder / 'inputs.json')!r} is not JSON: {exc}"
            raise ConfigError(msg, remedy="mend the JSON") from exc
        specs = Inputs.from_json(data, where=str(folder / "inputs.json"))
        check_specs(ir, specs)
    return Bundle(ir, _text(folder / "kernel.cu"), plan, _text(folder / "reference.py"), specs)


def check_specs(ir: KernelIR, specs: Inputs) -> None:
    """Check that inputs.json speaks of this IR's inputs; raises ConfigError naming the entry."""
    known = {t.name: t for t in ir.inputs}
    for name, spec in specs.specs.items():
        if name not in known:
            msg = f"inputs.json describes {name!r}, which is no input of the IR (inputs: {', '.join(known) or 'none'})"
            raise ConfigError(msg, remedy="name an input of the IR")
        wrong = next(misfits(ir, known[name], spec), None)
        if wrong is not None:
            msg = f"inputs.json contradicts the IR: {name!r} {wrong}"
            raise ConfigError(msg, remedy=f"mend the entry {name!r} of inputs.json, or the IR")


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as exc:
        msg = f"cannot read {str(path)!r}: {exc.strerror or exc}"
        raise ConfigError(msg, remedy="check the path and its permissions") from exc
    if len(data) > _MAX_SOURCE:
        msg = f"{str(path)!r} has {len(data)} bytes; at most {_MAX_SOURCE} are read"
        raise ConfigError(msg, remedy="check that this is the right file")
    return data.decode("utf-8", "replace")
