"""Settings of a run, read once (flag > environment `CUDA_HARNESS_*` > `cuda-harness.toml` > default)."""

from typing import Literal

from pydantic import Field, SecretStr

from cuda_harness.state.budget import Budget, Price
from cuda_harness.state.serde import Model


class ModelSettings(Model):
    """How to reach a provider; the key is a secret and appears in no state, log, trace or checkpoint."""

    name: str | None = None
    """Model of the default `openai:` provider."""
    base_url: str | None = None
    api_key: SecretStr | None = Field(default=None, exclude=True, repr=False)
    timeout_s: float = Field(default=600.0, gt=0)
    retries: int = Field(default=5, ge=0, le=20)
    """Tries after the first on 429, 5xx and broken connections, with backoff; one layer only."""
    max_output_tokens: int | None = Field(default=None, gt=0)
    temperature: float | None = Field(default=None, ge=0, le=2)
    requests_per_minute: float | None = Field(default=None, gt=0)
    extra_body: dict[str, object] = Field(default_factory=dict)
    prices: dict[str, Price] = Field(default_factory=dict)
    """By model name; none set: money is unknown."""


class Settings(Model):
    """Everything a user may set."""

    model: str | None = None
    """`offline`, `openai:NAME`, `replay:FILE`, `record:FILE:SPEC`; `None`: by what is configured."""
    models: dict[str, str] = Field(default_factory=dict)
    """Per role, over `model`."""
    provider: ModelSettings = ModelSettings()
    executor: str = "auto"
    target: str | None = None
    budget: Budget = Budget()
    ask: bool = False
    """Put the IR's assumptions to the user before a kernel is written."""
    out: str = "runs"
    seed: int | None = Field(default=None, ge=0, lt=1 << 63)
    prompts: str | None = None
    """Folder whose files override the built-in prompts."""
    unsafe_exec: bool = False
    cache: str | None = None
    """Folder for compiled artefacts; `None`: the user's cache folder."""
    log: Literal["file", "json", "console"] = "file"
    """Where events go beside the run's `events.jsonl`: nowhere, or to stderr as JSON lines or for a person to read."""
    redact: tuple[str, ...] = ()
    """Further regular expressions whose matches never reach a log or a trace."""
    ladder_seconds: float = Field(default=180.0, gt=0)
    """Most wall seconds for judging one kernel."""
    libraries: bool = True
    """Whether the best kernel's time is set beside PyTorch's, eager and compiled, where that is installed: up to two minutes."""
