"""Settings, read once: flag > environment `CUDA_HARNESS_*` > `cuda-harness.toml` > default."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.serde import describe
from cuda_harness.state.settings import Settings

FILE = "cuda-harness.toml"
DEFAULT_OPENAI_MODEL = "gpt-5.1"
_PREFIX = "CUDA_HARNESS_"
_ENVIRONMENT: dict[str, tuple[str, ...]] = {
    "MODEL": ("model",),
    "EXECUTOR": ("executor",),
    "TARGET": ("target",),
    "OUT": ("out",),
    "SEED": ("seed",),
    "CACHE": ("cache",),
    "PROMPTS": ("prompts",),
    "LOG": ("log",),
    "UNSAFE_EXEC": ("unsafe_exec",),
    "LADDER_SECONDS": ("ladder_seconds",),
    "LIBRARIES": ("libraries",),
    "MAX_CALLS": ("budget", "max_calls"),
    "MAX_TOKENS": ("budget", "max_tokens"),
    "MAX_USD": ("budget", "max_usd"),
    "MAX_SECONDS": ("budget", "max_seconds"),
    "MAX_GPU_SECONDS": ("budget", "max_gpu_seconds"),
    "ROUNDS": ("budget", "rounds"),
    "BRANCHES": ("budget", "branches"),
    "MODEL_NAME": ("provider", "name"),
    "BASE_URL": ("provider", "base_url"),
    "API_KEY": ("provider", "api_key"),
    "TIMEOUT_S": ("provider", "timeout_s"),
    "MAX_OUTPUT_TOKENS": ("provider", "max_output_tokens"),
    "TEMPERATURE": ("provider", "temperature"),
}
"""Environment variable without its prefix -> place in `Settings`."""
_NOT_OURS = {"DEBUG"}


def load_settings(
    flags: Mapping[str, Any] | None = None, *, environment: Mapping[str, str], folder: Path | None = None
) -> Settings:
    """Return the settings in force; `flags` holds only what was given, budgets under their own names.

    Raises:
        ConfigError: If the file or a value is unusable; names where it stands.
    """
    merged: dict[str, Any] = {}
    _merge(merged, _from_file((folder or Path()) / FILE))
    _merge(merged, _from_environment(environment))
    for name, value in (flags or {}).items():
        if value is None:
            continue
        path = ("budget", name) if name in _BUDGET_FLAGS else (name,)
        _put(merged, path, value)
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as exc:
        msg = "these settings are not usable:\n" + describe(exc)
        raise ConfigError(msg, remedy=f"mend the flag, the {_PREFIX}* variable or {FILE}") from exc
    refuse_uncounted(settings)
    if settings.model is None:
        reachable = settings.provider.api_key is not None or settings.provider.base_url is not None
        spec = f"openai:{settings.provider.name or DEFAULT_OPENAI_MODEL}" if reachable else "offline"
        settings = settings.model_copy(update={"model": spec})
    return settings


def refuse_uncounted(settings: Settings) -> None:
    """Refuse a limit on something that is not counted here: a limit that cannot be kept is none.

    Raises:
        ConfigError: Says what to limit instead; the user acts.
    """
    if settings.budget.max_usd is not None and not settings.provider.prices:
        msg = "--max-usd needs prices, and none are set: money could not be counted"
        raise ConfigError(msg, remedy=f"set [provider.prices.MODEL] in {FILE}, or use --max-tokens")


_BUDGET_FLAGS = frozenset(
    {"max_calls", "max_tokens", "max_usd", "max_seconds", "max_gpu_seconds", "rounds", "branches"}
)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        msg = f"cannot read {str(path)!r}: {exc}"
        raise ConfigError(msg, remedy="mend or remove the file") from exc


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, place in (("OPENAI_API_KEY", "api_key"), ("OPENAI_BASE_URL", "base_url")):
        if environment.get(name):
            _put(found, ("provider", place), environment[name])
    for variable, value in environment.items():
        short = variable.removeprefix(_PREFIX)
        if short == variable or not value or short in _NOT_OURS:
            continue
        if short not in _ENVIRONMENT:
            known = ", ".join(_PREFIX + n for n in sorted(_ENVIRONMENT))
            msg = f"unknown environment variable {variable}"
            raise ConfigError(msg, remedy=f"known: {known}")
        _put(found, _ENVIRONMENT[short], value)
    return found


def _put(target: dict[str, Any], path: tuple[str, ...], value: Any) -> None:  # noqa: ANN401 - any setting
    for part in path[:-1]:
        target = target.setdefault(part, {})
    target[path[-1]] = value


def _merge(target: dict[str, Any], extra: Mapping[str, Any]) -> None:
    for key, value in extra.items():
        if isinstance(value, Mapping) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = dict(value) if isinstance(value, Mapping) else value
