"""What a node may use, made light: a real run folder and ledger, scripted models, no tools."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel

from cuda_harness.agents.llm.ledger import Ledger
from cuda_harness.prompts.loader import Prompts
from cuda_harness.state.settings import Settings
from cuda_harness.tools.archive.run_folder import RunFolder


class FakeServices:
    """Stands in for `agents.context.Services`; a role without a model fails the test."""

    def __init__(
        self,
        root: Path,
        models: Mapping[str, BaseChatModel] | BaseChatModel | None = None,
        *,
        settings: Settings | None = None,
        **tools: Any,
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.settings = settings or Settings()
        self.folder = RunFolder(root)
        self.run_id = "run"
        self.seed = 1
        self.target = "sm_90a"
        self.cancelled = threading.Event()
        self.prompts = Prompts()
        self.ledger = Ledger(self.settings.budget, folder=self.folder, prices=self.settings.provider.prices)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._models = models
        for name, tool in tools.items():
            setattr(self, name, tool)

    def chat(self, role: str) -> BaseChatModel:
        if isinstance(self._models, BaseChatModel):
            return self._models
        if self._models is None or role not in self._models:
            msg = f"no model for role {role!r} in this test"
            pytest.fail(msg)
        return self._models[role]

    def emit(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    def names(self) -> list[str]:
        """Events so far, by name."""
        return [name for name, _ in self.events]


class FakeRuntime:
    """Stands in for LangGraph's runtime: a context that hands out one set of services."""

    def __init__(self, services: FakeServices) -> None:
        self.context = self
        self._services = services

    def services(self, run_dir: str) -> FakeServices:
        return self._services
