"""Chat models by SPEC, loaded on demand; others are registered under the entry point `cuda_harness.providers`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.settings import Settings
from cuda_harness.tools import plugins

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_BUILT_IN: dict[str, str] = {
    "offline": "cuda_harness.agents.llm.offline.author:make",
    "openai": "cuda_harness.agents.llm.openai:make",
    "replay": "cuda_harness.agents.llm.recording:make_replay",
    "record": "cuda_harness.agents.llm.recording:make_record",
}
_FORMS = {"openai": "openai:NAME", "replay": "replay:FILE", "record": "record:FILE:SPEC"}
DEFAULT_OPENAI_MODEL = "gpt-5.1"


def known() -> dict[str, str]:
    """Return short name -> `module:attribute` of every provider."""
    return plugins.known(plugins.PROVIDERS, _BUILT_IN)


def chat_model(spec: "str | BaseChatModel | None", *, role: str, settings: Settings) -> "BaseChatModel":
    """Return the chat model for `spec`; a LangChain chat model is taken as it is.

    `None` is `openai:` with the configured name when a key or a base URL is set, else `offline`.

    Raises:
        ConfigError: If the spec names no provider, or the provider cannot be set up as configured.
    """
    if spec is not None and not isinstance(spec, str):
        return spec
    if not spec:
        reachable = settings.provider.api_key is not None or settings.provider.base_url is not None
        spec = f"openai:{settings.provider.name or DEFAULT_OPENAI_MODEL}" if reachable else "offline"
    name, _, argument = spec.partition(":")
    table = known()
    if name not in table:
        msg = f"unknown model {spec!r}"
        raise ConfigError(msg, remedy=f"choose one of: {', '.join(_FORMS.get(n, n) for n in sorted(table))}")
    model: BaseChatModel = _load(name, table[name])(argument, role=role, settings=settings)
    return model


def _load(name: str, target: str) -> Callable[..., Any]:
    try:
        factory: Callable[..., Any] = plugins.attribute(target)
    except (ImportError, AttributeError) as exc:
        msg = f"the provider {name!r} cannot be loaded from {target!r}: {exc}"
        raise ConfigError(msg, remedy="install or mend the package that provides it") from exc
    return factory


def model_label(model: "BaseChatModel") -> str:
    """Return the name under which calls of `model` are booked and priced."""
    for attribute in ("model_name", "model"):
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(model).__name__
