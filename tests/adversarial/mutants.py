"""Machine-made mutants of the library: how many wrong kernels the verifier lets through.

A mutant is one small edit of a verified kernel or of its plan. It is *stillborn* when NVRTC refuses it,
*equivalent* when its cubin is the original's or `equivalent_mutants.json` holds an argument for it, *killed* when the
verdict is `rejected`, else it *survived*. Run it as `python -m tests.adversarial.mutants [--each N] [--seed S]`.

Source of the operators: the usual set of mutation analysis (Offutt et al., "An experimental determination of
sufficient mutant operators", 1996) with CUDA's own: barriers, thread axes, shuffles, launch shapes.
"""

import argparse
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.adversarial.corpus import ADVERSARIAL, ROOT, library

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

    from cuda_harness.state.results import Verdict
    from cuda_harness.tools.execute.cpu.executor import CpuExecutor
    from cuda_harness.tools.synthesize.reference import ReferenceRunner
    from cuda_harness.tools.toolchain.nvrtc import Compiler

EQUIVALENT = ADVERSARIAL / "equivalent_mutants.json"
OUT = ROOT / "build" / "mutants.jsonl"
TARGET = "sm_90a"

_OPERATORS = {
    "+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=",
    "!=": "==", "&&": "||", "||": "&&", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|",
}  # fmt: skip
_ASSIGNMENTS = {"+=": "-=", "-=": "+=", "*=": "+=", "/=": "*=", "|=": "&=", "&=": "|=", ">>=": "<<="}
_CALLS = {
    "min": "max", "max": "min", "fminf": "fmaxf", "fmaxf": "fminf", "expf": "fabsf", "__expf": "fabsf",
    "sqrtf": "fabsf", "rsqrtf": "sqrtf", "atomicAdd": "atomicMax", "atomicMax": "atomicMin",
    "__shfl_down_sync": "__shfl_up_sync", "__shfl_up_sync": "__shfl_down_sync", "__shfl_xor_sync": "__shfl_up_sync",
}  # fmt: skip
_BARRIERS = frozenset({"__syncthreads", "__syncwarp", "__threadfence"})
_AXES = {"x": "y", "y": "x", "z": "x"}
_CDIV = re.compile(r"cdiv\(([^,()]+),([^,()]+)\)")
_TYPES = {"float": "int", "double": "float", "size_t": "short", "int64_t": "short", "long long": "short"}


@dataclass(frozen=True)
class Mutant:
    """One edit of one bundle."""

    bundle: str
    operator: str
    """Kind of edit."""
    line: int
    """Line of kernel.cu, counted from 1; 0: the plan."""
    column: int
    change: str
    """`old -> new`, short."""
    source: str
    plan: str

    @property
    def key(self) -> str:
        """Identity across runs."""
        return f"{self.bundle}:{self.line}.{self.column}:{self.operator}:{self.change}"


@cache
def _parser() -> "Parser":
    import tree_sitter_cuda
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_cuda.language()))


def mutants_of(folder: Path) -> list[Mutant]:
    """Return every mutant of a bundle, in the order of its text."""
    source, plan = (folder / "kernel.cu").read_text(), (folder / "plan.json").read_text()
    found = [
        Mutant(folder.name, operator, line, column, change, text, plan)
        for operator, (line, column), change, text in _of_source(source)
    ]
    found += [
        Mutant(folder.name, operator, 0, 0, change, source, text) for operator, change, text in _of_plan(plan)
    ]
    return found


def sample(folder: Path, each: int, seed: int) -> list[Mutant]:
    """Return up to `each` mutants of a bundle, as many operators as it has; the same for the same seed."""
    rng = random.Random(f"{seed}:{folder.name}")
    by_operator: dict[str, list[Mutant]] = {}
    for mutant in mutants_of(folder):
        by_operator.setdefault(mutant.operator, []).append(mutant)
    for group in by_operator.values():
        rng.shuffle(group)
    names = sorted(by_operator)
    rng.shuffle(names)
    chosen: list[Mutant] = []
    while len(chosen) < each and any(by_operator.values()):
        chosen += [by_operator[n].pop() for n in names if by_operator[n]][: each - len(chosen)]
    return chosen


# ---------------------------------------------------------------------------------------- the source's edits


def _of_source(source: str) -> Iterator[tuple[str, tuple[int, int], str, str]]:
    data = source.encode()
    for node in _bodies(_parser().parse(data).root_node):
        for operator, target, new in _edits(node):
            old = data[target.start_byte : target.end_byte].decode()
            text = (data[: target.start_byte] + new.encode() + data[target.end_byte :]).decode()
            if old != new:
                yield (
                    operator,
                    (target.start_point[0] + 1, target.start_point[1] + 1),
                    f"{_short(old)} -> {_short(new) or 'nothing'}",
                    text,
                )


def _short(text: str) -> str:
    return " ".join(text.split())[:60]


def _bodies(root: "Node") -> Iterator["Node"]:
    """Yield every node inside the body of a function."""
    waiting = [(root, False)]
    while waiting:
        node, inside = waiting.pop()
        if inside:
            yield node
        within = inside or node.type == "compound_statement"
        waiting += [(child, within) for child in reversed(node.children)]


def _text(node: "Node | None") -> str:
    return node.text.decode() if node is not None and node.text is not None else ""


def _edits(node: "Node") -> Iterator[tuple[str, "Node", str]]:
    """Yield operator, node to replace, new text."""
    kind = node.type
    if kind in {"binary_expression", "assignment_expression"}:
        sign = node.child_by_field_name("operator")
        new = (_OPERATORS if kind == "binary_expression" else _ASSIGNMENTS).get(_text(sign))
        if sign is not None and new:
            yield "relation" if _text(sign)[0] in "<>=!" else "arithmetic", sign, new
    elif kind == "number_literal":
        yield "constant", node, _other_number(node)
    elif kind == "call_expression":
        yield from _call_edits(node)
    elif kind == "field_expression":
        axis = node.child_by_field_name("field")
        if axis is not None and _text(node).startswith(("threadIdx.", "blockIdx.", "blockDim.", "gridDim.")):
            yield "axis", axis, _AXES.get(_text(axis), "x")
    elif kind == "subscript_expression":
        indices = node.child_by_field_name("indices")
        inner = _text(indices).strip("[]")
        if indices is not None and inner and "," not in inner:
            yield "index", indices, f"[({inner}) + 1]"
            yield "index", indices, f"[({inner}) - 1]"
    elif kind == "if_statement":
        condition = node.child_by_field_name("condition")
        if condition is not None:
            yield "guard", condition, "(true)"
            yield "guard", condition, f"(!{_text(condition)})"
    elif kind == "expression_statement" and "__sync" not in _text(node):
        yield "deletion", node, ";"
    elif kind == "primitive_type" and _text(node) in _TYPES and _is_local(node.parent):
        yield "type", node, _TYPES[_text(node)]


def _is_local(node: "Node | None") -> bool:
    return node is not None and node.type == "declaration" and "__shared__" not in _text(node)


def _call_edits(node: "Node") -> Iterator[tuple[str, "Node", str]]:
    name = node.child_by_field_name("function")
    if _text(name) in _BARRIERS:
        yield "barrier", node, "((void)0)"
    elif name is not None and _text(name) in _CALLS:
        yield "call", name, _CALLS[_text(name)]


def _other_number(node: "Node") -> str:
    """Return one more, but one less for the size of an array: a larger array changes nothing."""
    text = _text(node)
    size = node.parent is not None and node.parent.type == "array_declarator"
    try:
        number = int(text, 0)
    except ValueError:
        return f"({text} + 1)"
    return str(number - 1) if size and number > 1 else str(number + 1)


# ------------------------------------------------------------------------------------------ the plan's edits


def _of_plan(plan: str) -> Iterator[tuple[str, str, str]]:
    document = json.loads(plan)
    for path, step in _steps(document["steps"], ()):
        if "launch" in step:
            for place, old in enumerate(step["grid"]):
                if str(old) not in {"1", "num_sms"}:
                    yield _changed(document, path, ("grid", place), old, f"({old}) - 1", "grid")
                    floored = _CDIV.sub(r"(\1) // (\2)", str(old))
                    if floored != str(old):
                        yield _changed(document, path, ("grid", place), old, floored, "grid")
            for place, old in enumerate(step["block"]):
                if str(old) != "1":
                    yield _changed(document, path, ("block", place), old, f"cdiv({old}, 2)", "block")
            if step.get("shared_bytes") not in {None, 0, "0"}:
                old = step["shared_bytes"]
                yield _changed(document, path, ("shared_bytes",), old, f"({old}) // 2", "shared")
        if "fill" in step or "copy" in step:
            yield _changed(document, path, ("when",), step.get("when", "always"), "0", "fill")
    for place, scratch in enumerate(document.get("scratch", [])):
        if scratch["shape"] and str(scratch["shape"][0]) != "1":
            old = scratch["shape"][0]
            yield _changed(document, ("scratch", place), ("shape", 0), old, f"cdiv({old}, 2)", "scratch")


def _steps(
    steps: list[dict[str, Any]], path: tuple[Any, ...]
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    for place, step in enumerate(steps):
        yield (*path, "steps", place), step
        yield from _steps(step.get("steps", []), (*path, "steps", place))


def _changed(
    document: dict[str, Any], path: Sequence[Any], field: Sequence[Any], old: object, new: str, operator: str
) -> tuple[str, str, str]:
    copy = json.loads(json.dumps(document))
    place = copy
    for key in (*path, *field[:-1]):
        place = place[key]
    place[field[-1]] = new
    return operator, f"{'.'.join(map(str, [*path, *field]))}: {old} -> {new}", json.dumps(copy)


# ------------------------------------------------------------------------------------------------ the judging


@dataclass
class Bench:
    """The tools that judge mutants."""

    executor: "CpuExecutor"
    compiler: "Compiler"
    references: "ReferenceRunner"
    seed: int

    def results(self, folder: Path, mutants: Sequence[Mutant]) -> Iterator[dict[str, Any]]:
        """Yield one record for each mutant of a bundle; the suite is made and proved once."""
        from cuda_harness.tools.synthesize.suite import Suite
        from cuda_harness.tools.verify.bundle import load_bundle
        from cuda_harness.tools.verify.climb import critical_sizes
        from cuda_harness.tools.verify.ladder import doubt_suite

        bundle = load_bundle(folder)
        original = bundle.kernel
        if original is None:
            msg = f"{folder.name} of the library has no plan"
            raise ValueError(msg)
        suite = Suite(bundle.ir, bundle.reference, runner=self.references, seed=self.seed, specs=bundle.specs)
        doubt = doubt_suite(suite, critical_sizes(original.plan))
        if doubt is not None:
            msg = f"{folder.name}: {doubt.message}"
            raise ValueError(msg)
        arguments = json.loads(EQUIVALENT.read_text()) if EQUIVALENT.exists() else {}
        for mutant in mutants:
            began = time.monotonic()
            end, detail = self._end(mutant, original, suite, bundle.ir, arguments)
            yield {
                "key": mutant.key, "bundle": mutant.bundle, "operator": mutant.operator, "line": mutant.line,
                "change": mutant.change, "end": end, "detail": detail, "seconds": round(time.monotonic() - began, 2),
            }  # fmt: skip

    def _end(
        self, mutant: Mutant, original: Any, suite: Any, ir: Any, arguments: dict[str, str]
    ) -> tuple[str, str]:
        from pydantic import ValidationError

        from cuda_harness.state.kernel import Kernel, LaunchPlan
        from cuda_harness.tools.verify.ladder import judge

        try:
            plan = LaunchPlan.model_validate_json(mutant.plan)
        except ValidationError as exc:
            return "stillborn", str(exc)[:200]
        if mutant.line and (same := self._same_code(mutant, original, plan)) is not None:
            return same
        if mutant.key in arguments:
            return "equivalent", arguments[mutant.key]
        verdict: Verdict = judge(
            Kernel(source=mutant.source, plan=plan), ir, suite, executor=self.executor, compiler=self.compiler,
            target=TARGET, seed=self.seed, max_seconds=120,
        )  # fmt: skip
        if verdict.outcome == "accepted":
            return "survived", ""
        why = f"{verdict.failure.stage}/{verdict.failure.class_}" if verdict.failure else "nothing failed"
        return ("killed" if verdict.outcome == "rejected" else "undecided"), why

    def _same_code(self, mutant: Mutant, original: Any, plan: Any) -> tuple[str, str] | None:
        macros = {name: values[0] for name, values in plan.tunables.items()}
        macros |= dict.fromkeys(plan.defines, 37)
        made = [
            self.compiler.compile(s, arch=TARGET, macros=macros) for s in (mutant.source, original.source)
        ]
        if made[0].status == "rejected":
            return "stillborn", "NVRTC refuses it"
        if made[0].status == made[1].status == "ok" and made[0].cubin_sha256 == made[1].cubin_sha256:
            return "equivalent", "the cubin is the original's"
        return None


def run(folders: Sequence[Path], *, each: int, seed: int, out: Path | None = None) -> list[dict[str, Any]]:
    """Return the records of all sampled mutants; those already in `out` are not judged again."""
    from cuda_harness.tools.execute.cpu.executor import CpuExecutor
    from cuda_harness.tools.synthesize.reference import ReferenceRunner
    from cuda_harness.tools.toolchain.nvrtc import Compiler

    records: dict[str, dict[str, Any]] = {}
    if out is not None and out.exists():
        records = {r["key"]: r for r in map(json.loads, out.read_text().splitlines())}
    bench = Bench(CpuExecutor(), Compiler(), ReferenceRunner(), seed)
    wanted: list[str] = []
    try:
        for folder in folders:
            chosen = sample(folder, each, seed)
            wanted += [m.key for m in chosen]
            left = [m for m in chosen if m.key not in records]
            for record in bench.results(folder, left) if left else ():
                records[record["key"]] = record
                if out is not None:
                    out.parent.mkdir(exist_ok=True)
                    with out.open("a") as stream:
                        stream.write(json.dumps(record) + "\n")
    finally:
        bench.compiler.close()
        bench.references.close()
    return [records[key] for key in wanted]


def score(records: Sequence[dict[str, Any]]) -> dict[str, float | int]:
    """Return counts by end, the raw kill rate, and killed / not equivalent."""
    ends = Counter(r["end"] for r in records)
    alive = len(records) - ends["stillborn"]
    real = alive - ends["equivalent"]
    return {
        **ends,
        "mutants": alive,
        "raw_kill_rate": ends["killed"] / alive if alive else 0.0,
        "score": ends["killed"] / real if real else 0.0,
    }


def main() -> None:
    """Judge mutants of the whole library and print the score and the survivors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--each", type=int, default=6, help="mutants of each bundle")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, help="every n-th bundle only")
    options = parser.parse_args()
    records = run(library()[:: options.every], each=options.each, seed=options.seed, out=OUT)
    for record in records:
        if record["end"] in {"survived", "undecided"}:
            print(f"{record['end']}: {record['key']} {record['detail']}")
    json.dump(score(records), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
