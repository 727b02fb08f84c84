"""What a node may use besides its state: made by the caller once, never global, never serialised."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda_harness.state.budget import Budget
from cuda_harness.state.errors import ConfigError, ToolchainError
from cuda_harness.state.settings import Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from cuda_harness.agents.llm.ledger import Ledger
    from cuda_harness.prompts.loader import Prompts
    from cuda_harness.tools.execute.protocol import Executor
    from cuda_harness.tools.synthesize.reference import ReferenceRunner
    from cuda_harness.tools.toolchain.nvrtc import Compiler

ROLES = ("planner", "reference", "loops", "coder", "arbiter", "evolver")

_HELPERS = ("executor", "check_executor", "compiler", "references")
"""Services with child processes: they end with the run."""

Listener = Callable[[str, Mapping[str, Any]], None]
"""Called with each progress event and its fields."""


@dataclass(eq=False)
class RunContext:
    """A run's settings and dependencies, injectable one by one.

    `model`, `models`, `executor`, `budget` and `out` go over the same fields of `settings`.
    """

    model: "str | BaseChatModel | None" = None
    """A model SPEC or any LangChain chat model."""
    models: "Mapping[str, str | BaseChatModel]" = field(default_factory=dict)
    """Per role, over `model`; roles: planner, reference, loops, coder, arbiter, evolver."""
    executor: "str | Executor | None" = None
    """`auto`, `cpu`, `cuda[:N]`, or an executor of your own."""
    budget: Budget | None = None
    out: str | Path | None = None
    target: str | None = None
    """GPU architecture to compile for, for example `sm_90a`; `None`: the device's, else sm_90a."""
    seed: int | None = None
    ask: bool | None = None
    """Put the IR's assumptions to the user before a kernel is written."""
    settings: Settings = field(default_factory=Settings)
    listener: Listener | None = None
    """Receives progress events as well as the run's own log."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set it to stop the run at the next chance; children are ended at once."""
    _services: "dict[str, Services]" = field(default_factory=dict, repr=False)
    _ended: set[str] = field(default_factory=set, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.models) - set(ROLES))
        if unknown:
            msg = f"unknown role {unknown[0]!r} in models"
            raise ConfigError(msg, remedy=f"roles are {', '.join(ROLES)}")

    @property
    def effective(self) -> Settings:
        """The settings with this context's own fields on top (models given as objects stay here)."""
        changes: dict[str, Any] = {}
        if isinstance(self.model, str):
            changes["model"] = self.model
        specs = {role: spec for role, spec in self.models.items() if isinstance(spec, str)}
        if specs:
            changes["models"] = {**self.settings.models, **specs}
        if isinstance(self.executor, str):
            changes["executor"] = self.executor
        for name in ("budget", "target", "seed", "ask"):
            value = getattr(self, name)
            if value is not None:
                changes[name] = value
        if self.out is not None:
            changes["out"] = str(self.out)
        return self.settings.model_copy(update=changes)

    def services(self, run_dir: str) -> "Services":
        """Return what the nodes of the run in `run_dir` share; built on first use, closed by `close`."""
        with self._lock:
            if run_dir not in self._services:
                made = self._services[run_dir] = Services(self, Path(run_dir))
                if self.cancelled.is_set() and run_dir in self._ended:
                    made.close()  # a node that still runs in a thread starts nothing again
            return self._services[run_dir]

    def close(self, run_dir: str | None = None) -> None:
        """End the helper processes of one run, or of all runs of this context; idempotent."""
        with self._lock:
            wanted = list(self._services) if run_dir is None else [run_dir]
            self._ended.update(wanted)
            ended = [self._services.pop(name) for name in wanted if name in self._services]
        for services in ended:
            services.close()

    def for_one_run(self) -> "RunContext":
        """Return the same settings and models with a cancel event and services of its own."""
        return replace(self, cancelled=threading.Event(), _services={}, _ended=set(), _lock=threading.Lock())


class Services:
    """The run's tools; each is built when a node first asks for it."""

    def __init__(self, context: RunContext, run_dir: Path) -> None:
        from cuda_harness.tools.archive.run_folder import RunFolder

        self.context = context
        self.settings = context.effective
        self.cancelled = context.cancelled
        self.folder: RunFolder = RunFolder(run_dir)
        manifest = self.folder.read_json("manifest.json")
        self.run_id: str = manifest["run_id"]
        self.seed: int = manifest["seed"]
        self._made: dict[str, Any] = {}
        self._over = False
        self._lock = threading.RLock()

    def _once(self, name: str, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - each property types itself
        with self._lock:
            if name not in self._made:
                if self._over and name in _HELPERS:
                    msg = f"the run is over, and {name!r} with it"
                    raise ToolchainError(msg, remedy="go on with it: cuda-harness resume")
                self._made[name] = make()
            return self._made[name]

    def chat(self, role: str) -> "BaseChatModel":
        """Return the chat model of a role."""

        def make() -> "BaseChatModel":
            from cuda_harness.agents.llm.providers import chat_model

            given = self.context.models.get(role, self.settings.models.get(role, self.context.model))
            return chat_model(
                given if given is not None else self.settings.model, role=role, settings=self.settings
            )

        model: BaseChatModel = self._once(f"chat.{role}", make)
        return model

    @property
    def ledger(self) -> "Ledger":
        """Budget and spend of the run."""

        def make() -> "Ledger":
            from cuda_harness.agents.llm.ledger import Ledger

            return Ledger(
                self.settings.budget, folder=self.folder, prices=self.settings.provider.prices, gpu_clock=self._gpu_seconds
            )  # fmt: skip

        ledger: Ledger = self._once("ledger", make)
        return ledger

    def _gpu_seconds(self) -> float | None:
        """Return what the executor has counted so far; 0 while there is none, `None` where it does not count."""
        made = self._made.get("executor")
        if made is None or made.name.startswith("cpu"):
            return 0.0
        counted = getattr(made, "gpu_seconds", None)
        return None if counted is None else float(counted)

    @property
    def prompts(self) -> "Prompts":
        """The prompt templates, with the user's overrides."""

        def make() -> "Prompts":
            from cuda_harness.prompts.loader import Prompts
            from cuda_harness.tools.plugins import skill_folders

            return Prompts(override=self.settings.prompts, more=skill_folders())

        prompts: Prompts = self._once("prompts", make)
        return prompts

    @property
    def compiler(self) -> "Compiler":
        """NVRTC behind its cache."""

        def make() -> "Compiler":
            from cuda_harness.tools.toolchain.nvrtc import Compiler

            return Compiler(cache=Path(self.settings.cache) if self.settings.cache else None)

        compiler: Compiler = self._once("compiler", make)
        return compiler

    @property
    def executor(self) -> "Executor":
        """The executor the verdict names."""

        def make() -> "Executor":
            from cuda_harness.tools.execute.registry import executor

            given = self.context.executor
            if given is not None and not isinstance(given, str):
                return given
            return executor(self.settings.executor, settings=self.settings, cancel=self.cancelled)

        made: Executor = self._once("executor", make)
        return made

    @property
    def check_executor(self) -> "Executor | None":
        """The executor with a check mode; `None` where this machine has none (a GPU machine without g++)."""

        def make() -> "Executor | None":
            from cuda_harness.state.errors import ExecutorUnavailable
            from cuda_harness.tools.execute.registry import executor

            if "check" in self.executor.modes:
                return self.executor
            try:
                return executor("cpu", settings=self.settings, cancel=self.cancelled)
            except ExecutorUnavailable:
                return None

        made: Executor | None = self._once("check_executor", make)
        return made

    @property
    def references(self) -> "ReferenceRunner":
        """Runs references in contained children."""

        def make() -> "ReferenceRunner":
            from cuda_harness.tools.synthesize.reference import ReferenceRunner

            return ReferenceRunner(unsafe=self.settings.unsafe_exec)

        runner: ReferenceRunner = self._once("references", make)
        return runner

    @property
    def target(self) -> str:
        """The GPU architecture kernels are compiled for."""
        return self.settings.target or self.executor.device().arch or "sm_90a"

    def emit(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - event fields are plain values
        """Report progress: to the run's log, the listener, and LangGraph's custom stream when inside a node."""
        from cuda_harness.tools.trace.events import log_event

        log_event(self.folder.root, event, {"run_id": self.run_id, **fields}, settings=self.settings)
        if self.context.listener is not None:
            self.context.listener(event, fields)
        _stream({"event": event, "run_id": self.run_id, **fields})

    def close(self) -> None:
        """End helper processes; idempotent."""
        with self._lock:
            self._over = True  # a branch that still runs in a thread must not start them again
            for name in _HELPERS:
                made = self._made.pop(name, None)
                if made is not None and made is not self.context.executor:
                    made.close()


def _stream(event: Mapping[str, Any]) -> None:
    """Hand `event` to LangGraph's custom stream; outside a node there is none."""
    from langgraph.config import get_stream_writer

    try:
        writer = get_stream_writer()
    except RuntimeError:
        return
    writer(event)
