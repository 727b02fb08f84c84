"""References that cannot be used: each ends in its own kind, names the culprit, and the next one is not harmed."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.execute import sandbox
from cuda_harness.tools.synthesize.reference import Question, ReferenceFault, ReferenceRunner, Truth

pytestmark = pytest.mark.skipif(not sandbox.probe().contains, reason="seccomp filters do not work here")

IR = KernelIR.model_validate({
    "schema": "cuda-harness/ir/1", "name": "twice", "dims": [{"name": "n", "value": 8}],
    "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
                {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]},
                {"name": "k", "role": "out", "dtype": "int8", "shape": [1]}],
})  # fmt: skip
GOOD = "def reference(inputs, dims, scalars):\n    return {'y': 2.0 * inputs['x'], 'k': [3]}\n"
QUESTION = Question({"x": np.arange(8, dtype=np.float32)}, {"n": 8}, {})
HEAD = "import ctypes, os, sys, time\nimport numpy as np\ndef reference(inputs, dims, scalars):\n    good = {'y': 2.0 * inputs['x'], 'k': [3]}\n"


@pytest.fixture(scope="module")
def runner() -> Iterator[ReferenceRunner]:
    made = ReferenceRunner()
    yield made
    made.close()


def ask(
    runner: ReferenceRunner, source: str, *, deadline_s: float = 20.0, count: int = 1
) -> list[Truth] | ReferenceFault:
    return runner.evaluate(source, IR, [QUESTION] * count, deadline_s=deadline_s)


def right(found: Any) -> bool:
    return isinstance(found, list) and bool((found[0].arrays["y"] == 2 * np.arange(8)).all())


def test_a_good_reference_is_normalised(runner: ReferenceRunner) -> None:
    found = ask(runner, GOOD)

    assert right(found)
    assert isinstance(found, list)
    assert found[0].arrays["y"].dtype == np.float64
    assert found[0].arrays["k"].dtype == np.int8


BAD = {
    "raises": ("raise ValueError('no such axis')", "raised", "no such axis (line 5)"),
    "exits": ("sys.exit(0)", "raised", "SystemExit"),
    "ends the process": ("os._exit(0)", "killed", "before it returned"),
    "crashes": ("ctypes.string_at(0)", "killed", ""),
    "wrong shape": ("return {**good, 'y': np.zeros(7)}", "bad_shape", "shape [7], the IR says [8]"),
    "transposed shape": ("return {**good, 'y': np.zeros((2, 4))}", "bad_shape", "shape [2, 4]"),
    "far too much": ("return {**good, 'y': np.zeros(1 << 26)}", "bad_shape", ""),
    "objects": ("return {**good, 'y': np.array([{}] * 8)}", "raised", "plain numbers"),
    "text": ("return {**good, 'y': np.array(['a'] * 8)}", "raised", "plain numbers"),
    "complex numbers": ("return {**good, 'y': np.zeros(8, complex)}", "raised", "plain numbers"),
    "fractions for an integer": ("return {**good, 'k': [2.5]}", "bad_dtype", "'k'"),
    "missing output": ("return {'y': good['y']}", "missing_output", "no 'k'"),
    "no mapping": ("return good['y']", "raised", ""),
    "nothing": ("return None", "raised", ""),
    "no memory left": ("return {**good, 'y': np.ones(1 << 36)}", "memory", "memory"),
    "writes a file": ("open('/tmp/from_reference', 'w')", "raised", "PermissionError"),
    "starts a program": ("os.system('true') and 1 / 0\n    os.execv('/bin/true', ['true'])", "raised", ""),
}  # fmt: skip


@pytest.mark.parametrize(("body", "kind", "text"), BAD.values(), ids=BAD.keys())
def test_a_bad_reference_ends_in_its_kind(runner: ReferenceRunner, body: str, kind: str, text: str) -> None:
    found = ask(runner, f"{HEAD}    {body}\n")

    assert isinstance(found, ReferenceFault), found
    assert found.kind == kind, found
    assert text in found.message
    assert "reference" in found.message, "the culprit is named"
    assert right(ask(runner, GOOD)), "the next reference is judged as if this one had never run"
    assert not Path("/tmp/from_reference").exists()


@pytest.mark.parametrize("source", ["", "x = 1\n", "def reference(:\n", "import no_such_module\n", "\0"])
def test_text_that_is_no_reference(runner: ReferenceRunner, source: str) -> None:
    found = ask(runner, source)

    assert isinstance(found, ReferenceFault)
    assert found.kind == "raised"


@pytest.mark.parametrize("body", ["while True: pass", "time.sleep(60)", "sum(range(10**12))"])
def test_a_hanging_reference_is_ended_by_its_deadline(runner: ReferenceRunner, body: str) -> None:
    began = time.monotonic()

    found = ask(runner, f"{HEAD}    {body}\n", deadline_s=1.0)

    assert isinstance(found, ReferenceFault)
    assert found.kind == "hung", found
    assert time.monotonic() - began < 30
    assert right(ask(runner, GOOD))


def test_prints_do_not_reach_the_answer(runner: ReferenceRunner) -> None:
    assert right(
        ask(runner, f"{HEAD}    print('{{}}' * 99999, flush=True)\n    os.write(1, b'x')\n    return good\n")
    )


FORGERIES = {
    "a second answer": (
        "import json, struct\n"
        "    head = json.dumps({'status': 'ok', 'cases': [], 'blobs': []}).encode()\n"
        "    for fd in range(3, 64):\n        try: os.write(fd, struct.pack('<Q', len(head)) + head)\n        except OSError: pass\n"
        "    return good"
    ),
    "noise": "[os.write(fd, b'noise' * 9) for fd in range(3, 64) if _open(fd)]\n    return good",
    "noise and an end": "[os.write(fd, b'noise' * 9) for fd in range(3, 64) if _open(fd)]\n    os._exit(0)",
    "a huge length": "[os.write(fd, b'\\xff' * 8) for fd in range(3, 64) if _open(fd)]\n    return good",
}
_OPEN = "def _open(fd):\n    try: os.fstat(fd)\n    except OSError: return False\n    return True\n"


@pytest.mark.parametrize("body", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forged_answer_is_refused_and_never_answers_a_later_question(
    runner: ReferenceRunner, body: str
) -> None:
    found = ask(runner, f"{HEAD}    {body}\n{_OPEN}")

    assert isinstance(found, ReferenceFault), found
    assert found.kind == "forged", found
    for _ in range(2):
        assert right(ask(runner, GOOD))


def test_nothing_is_left_for_the_next_reference(runner: ReferenceRunner) -> None:
    spoil = "import builtins, numpy as np\nnp.exp = None\nbuiltins.seen = 1\n" + GOOD
    peek = (
        "import builtins, numpy as np\nassert np.exp is not None and not hasattr(builtins, 'seen')\n" + GOOD
    )

    assert right(ask(runner, spoil))
    assert right(ask(runner, peek))


def test_inputs_are_copies_for_each_case(runner: ReferenceRunner) -> None:
    found = ask(runner, f"{HEAD}    inputs['x'][:] = 0\n    dims['n'] = 1\n    return good\n", count=3)

    assert isinstance(found, list)
    assert all((t.arrays["y"] == 2 * np.arange(8)).all() for t in found)


def test_secrets_of_the_environment_stay_behind(
    runner: ReferenceRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    fresh = ReferenceRunner()
    try:
        assert right(ask(fresh, f"{HEAD}    assert 'OPENAI_API_KEY' not in os.environ\n    return good\n"))
    finally:
        fresh.close()


def test_sizes_of_one_are_forgiven_other_shapes_are_not(runner: ReferenceRunner) -> None:
    for shape, fits in (("(8,)", True), ("(1, 8)", True), ("(8, 1)", True), ("(4, 2)", False)):
        found = ask(runner, f"{HEAD}    return {{**good, 'y': np.zeros({shape}), 'k': 3}}\n")
        assert isinstance(found, list) is fits, shape


@pytest.mark.parametrize(
    ("value", "dtype", "kept"),
    [(200, "int8", None), (300, "uint8", 44), (-1, "uint32", 2**32 - 1), (7, "int8", 7)],
)
def test_integers_wrap_where_their_type_does(
    runner: ReferenceRunner, value: int, dtype: str, kept: int | None
) -> None:
    ir = KernelIR.model_validate({**IR.model_dump(mode="json", by_alias=True), "tensors": [
        {"name": "k", "role": "out", "dtype": dtype, "shape": ["n"]}]})  # fmt: skip
    source = f"import numpy as np\ndef reference(inputs, dims, scalars):\n    return {{'k': np.full(8, {value})}}\n"

    found = runner.evaluate(source, ir, [Question({}, {"n": 8}, {})])

    assert isinstance(found, list)
    assert found[0].beyond == (frozenset({"k"}) if kept is None else frozenset())
    if kept is not None:
        assert (found[0].arrays["k"] == kept).all()


def test_more_memory_than_there_is_is_planned_away(runner: ReferenceRunner) -> None:
    big = KernelIR.model_validate({**IR.model_dump(mode="json", by_alias=True), "tensors": [
        {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}]})  # fmt: skip

    found = runner.evaluate(GOOD, big, [Question({}, {"n": 1 << 45}, {})])

    assert isinstance(found, ReferenceFault)
    assert found.kind == "resources"


def test_a_warm_batch_starts_no_process(runner: ReferenceRunner) -> None:
    ask(runner, GOOD)
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    before = children.read_text()
    for _ in range(5):
        assert right(ask(runner, GOOD, count=8))

    assert children.read_text() == before
