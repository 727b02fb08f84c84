"""Models by name."""

import pytest
from pydantic import SecretStr
from tests.fakes.scripted_model import ScriptedChatModel

from cuda_harness.agents.llm import providers
from cuda_harness.agents.llm.providers import chat_model, model_label
from cuda_harness.state.errors import ConfigError
from cuda_harness.state.settings import ModelSettings, Settings

KEYED = Settings(provider=ModelSettings(api_key=SecretStr("sk-secret-1234567890")))


def test_a_langchain_model_is_taken_as_it_is() -> None:
    model = ScriptedChatModel()
    assert chat_model(model, role="coder", settings=Settings()) is model
    assert model_label(model) == "scripted"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="unknown model 'gemini:x'") as error:
        chat_model("gemini:x", role="coder", settings=Settings())
    assert "offline, openai:NAME, record:FILE:SPEC, replay:FILE" in error.value.remedy


def test_openai_by_name_and_by_default() -> None:
    assert model_label(chat_model("openai:gpt-x", role="coder", settings=KEYED)) == "gpt-x"
    assert model_label(chat_model(None, role="coder", settings=KEYED)) == providers.DEFAULT_OPENAI_MODEL
    named = Settings(provider=ModelSettings(base_url="http://127.0.0.1:1/v1", name="local"))
    assert model_label(chat_model(None, role="coder", settings=named)) == "local"


def test_without_key_and_endpoint_openai_says_what_to_set() -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        chat_model("openai:gpt-x", role="coder", settings=Settings())


@pytest.mark.parametrize("settings", [KEYED, Settings()])
def test_openai_needs_a_model_name(settings: Settings) -> None:
    with pytest.raises(ConfigError, match="openai:NAME"):
        chat_model("openai:", role="coder", settings=settings)


def test_a_base_url_without_a_scheme_is_refused() -> None:
    settings = Settings(provider=ModelSettings(base_url="localhost:8000/v1"))
    with pytest.raises(ConfigError, match="http"):
        chat_model("openai:x", role="coder", settings=settings)


def test_the_key_is_in_no_representation() -> None:
    model = chat_model("openai:gpt-x", role="coder", settings=KEYED)
    assert "sk-secret" not in repr(model) + str(model) + repr(KEYED) + KEYED.model_dump_json()


def test_a_broken_plug_in_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "known", lambda: {"mine": "no_such_module:make"})
    with pytest.raises(ConfigError, match="'mine' cannot be loaded"):
        chat_model("mine:x", role="coder", settings=Settings())
