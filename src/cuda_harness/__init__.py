"""CUDA-Harness: a sentence in, a verified CUDA kernel out.

The public names load on first use, so `import cuda_harness` stays cheap.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuda_harness.agents.context import RunContext
    from cuda_harness.graph.build import build_graph
    from cuda_harness.graph.embed import as_node
    from cuda_harness.graph.runner import agenerate, generate, resume, verify
    from cuda_harness.graph.tool import as_tool
    from cuda_harness.state.settings import Settings

__all__ = [
    "RunContext",
    "Settings",
    "__version__",
    "agenerate",
    "as_node",
    "as_tool",
    "build_graph",
    "generate",
    "resume",
    "verify",
]
__version__ = "0.1.0"

_HOMES = {
    "RunContext": "cuda_harness.agents.context",
    "Settings": "cuda_harness.state.settings",
    "agenerate": "cuda_harness.graph.runner",
    "as_node": "cuda_harness.graph.embed",
    "as_tool": "cuda_harness.graph.tool",
    "build_graph": "cuda_harness.graph.build",
    "generate": "cuda_harness.graph.runner",
    "resume": "cuda_harness.graph.runner",
    "verify": "cuda_harness.graph.runner",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the module's own attributes
    if name not in _HOMES:
        msg = f"module 'cuda_harness' has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
