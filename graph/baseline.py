"""`--baseline one-shot`: the same model, asked once for the whole program, as the benchmark asks."""

from pathlib import Path

from cuda_harness.agents.ask import ReplyKey, ask
from cuda_harness.agents.context import RunContext, Services
from cuda_harness.agents.reply import fenced_blocks
from cuda_harness.prompts.loader import Prompt
from cuda_harness.state.errors import ModelRefused
from cuda_harness.tools.archive.run_folder import RunFolder
from cuda_harness.tools.benchmarks.results import Row
from cuda_harness.tools.benchmarks.task import Task

RULES = """You write CUDA programs. Answer with one complete program in a single fenced code block and nothing else.

The program
- reads each input from `data/NAME.bin` and writes each output to `data/NAME.bin`: raw values in row-major order, no header;
- uses exactly the names, element types and shapes given, as constants in the text;
- has a `main` without arguments that reads, copies to the device, launches, copies back and writes, and returns 0;
- checks bounds in its kernels, and is as fast as it can be on {gpu};
- compiles with nvcc and uses nothing beyond the CUDA toolkit's headers and the C++ standard library.
"""


def one_shot(
    row: Row, task: Task, request: str, *, context: RunContext, folder: Path, gpu: str
) -> str | None:
    """Return the program of one answer, `None` when there is none; calls, tokens and money go into `row`.

    The answer lies in `folder` before it is read, so a suite that goes on never pays for it twice.

    Args:
        row: Filled with what is known.
        task: The task.
        request: What the model is told of it.
        context: Settings, with this result's share of the suite's budget.
        folder: Of this answer.
        gpu: Name of the GPU for which the program is written.

    Raises:
        ModelError: If the provider fails.
        BudgetExhausted: If the call does not fit the budget; nothing was spent.
    """
    record = RunFolder(folder)
    if not record.exists("manifest.json"):
        record.write_json("manifest.json", {"run_id": folder.name, "seed": 0})
    services = Services(context, folder)
    prompt = Prompt(
        name="baseline", role="coder", version=1, system=RULES.format(gpu=gpu),
        human=f"Task: {task.task_name}\n\n{request}",
    )  # fmt: skip
    try:
        text = ask(services, "coder", prompt, lambda reply: reply.text, key=ReplyKey("coder"))
    except ModelRefused as exc:
        row |= {"status": "refused", "detail": exc.message[:1000]}
        return None
    finally:
        spend = services.ledger.spend()
        row |= spend.model_dump(include={"calls", "input_tokens", "output_tokens", "usd", "gpu_seconds"})
        row["run"] = str(Path("runs") / folder.name)
        services.close()
    programs = [b.text for b in fenced_blocks(text) if "main" in b.text and "__global__" in b.text]
    if not programs:
        refused = '"refused"' in text
        row |= {
            "status": "refused" if refused else "failed",
            "detail": f"no program in the answer: {text[:300]}",
        }
        return None
    return programs[0]
