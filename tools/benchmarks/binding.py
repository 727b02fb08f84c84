"""Which array of an IR is which file of a task: by name, else by order; type and bytes must agree."""

from cuda_harness.state.ir import KernelIR, Tensor
from cuda_harness.state.names import ITEM_BYTES
from cuda_harness.tools.benchmarks.task import Task, TaskTensor


def bind(ir: KernelIR, task: Task) -> dict[str, TaskTensor] | str:
    """Return the task's array of each tensor of the IR, or why they do not fit, in one sentence.

    Files are flat bytes and an IR has logical shapes, so only type and byte count must agree.
    """
    inputs = _matched(ir, [t for t in ir.tensors if t.role != "out"], task.inputs, "input")
    if isinstance(inputs, str):
        return inputs
    outputs = _matched(ir, [t for t in ir.tensors if t.role != "in"], task.outputs, "output")
    if isinstance(outputs, str):
        return outputs
    twice = sorted(n for n in inputs.keys() & outputs.keys() if inputs[n].name != outputs[n].name)
    if twice:
        return f"{twice[0]!r} is updated in place, and the task has two files for it"
    return inputs | outputs


def _matched(
    ir: KernelIR, tensors: list[Tensor], files: tuple[TaskTensor, ...], what: str
) -> dict[str, TaskTensor] | str:
    if len(tensors) != len(files):
        return f"the kernel has {len(tensors)} {what}(s), the task {len(files)}"
    by_name = {f.name: f for f in files}
    named = all(t.name in by_name for t in tensors)
    pairs = [(t, by_name[t.name]) for t in tensors] if named else list(zip(tensors, files, strict=True))
    for tensor, file in pairs:
        count = 1
        for size in tensor.dims(ir.target_dims):
            count *= size
        if tensor.dtype != file.dtype:
            return f"{what} {file.name!r} is {file.dtype}, the kernel's {tensor.name!r} is {tensor.dtype}"
        if count * ITEM_BYTES[tensor.dtype] != file.bytes:
            return f"{what} {file.name!r} has {file.bytes} bytes, the kernel's {tensor.name!r} has {count * ITEM_BYTES[tensor.dtype]}"
    return {t.name: f for t, f in pairs}
