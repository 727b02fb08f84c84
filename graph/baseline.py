"""`--baseline one-shot`: the same model, asked once for the whole program, as the benchmark asks."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cuda_harness.agents.llm.providers import chat_model
from cuda_harness.agents.reply import fenced_blocks
from cuda_harness.tools.benchmarks.results import Row
from cuda_harness.tools.benchmarks.task import Task

if TYPE_CHECKING:
    from cuda_harness.state.settings import Settings

RULES = """You write CUDA programs. Answer with one complete program in a single fenced code block and nothing else.

The program
- reads each input from `data/NAME.bin` and writes each output to `data/NAME.bin`: raw values in row-major order, no header;
- uses exactly the names, element types and shapes given, as constants in the text;
- has a `main` without arguments that reads, copies to the device, launches, copies back and writes, and returns 0;
- checks bounds in its kernels, and is as fast as it can be on {gpu};
- compiles with nvcc and uses nothing beyond the CUDA toolkit's headers and the C++ standard library.
"""


def one_shot(
    row: Row, task: Task, request: str, settings: "Settings", *, gpu: str = "an NVIDIA GPU"
) -> str | None:
    """Return the program of one answer, `None` when there is none; calls and tokens go into `row`.

    Raises:
        ModelError: If the provider fails.
    """
    from langchain_core.messages import HumanMessage, SystemMessage

    model = chat_model(settings.model, role="coder", settings=settings)
    reply = model.invoke([
        SystemMessage(RULES.format(gpu=gpu)),
        HumanMessage(f"Task: {task.task_name}\n\n{request}"),
    ])  # fmt: skip
    usage: Mapping[str, Any] = getattr(reply, "usage_metadata", None) or {}
    row |= {
        "calls": 1,
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "outcome": None,
    }
    text = reply.text if isinstance(reply.text, str) else str(reply.content)
    programs = [b.text for b in fenced_blocks(text) if "main" in b.text and "__global__" in b.text]
    if not programs:
        refused = '"refused"' in text
        row |= {
            "status": "refused" if refused else "failed",
            "detail": f"no program in the answer: {text[:300]}",
        }
        return None
    return programs[0]
