from pathlib import Path

import pytest

from cuda_harness.graph.configure import FILE, load_settings
from cuda_harness.state.errors import ConfigError

TOML = """
executor = "cpu"
[budget]
max_calls = 3
rounds = 7
[provider]
name = "local"
base_url = "http://127.0.0.1:1/v1"
[provider.prices.local]
input_usd_per_million = 1.0
output_usd_per_million = 2.0
"""


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(TOML)
    environment = {"CUDA_HARNESS_MAX_CALLS": "5", "CUDA_HARNESS_ROUNDS": "6", "UNRELATED": "1"}
    settings = load_settings({"rounds": 1, "seed": None}, environment=environment, folder=tmp_path)
    assert settings.budget.rounds == 1
    assert settings.budget.max_calls == 5
    assert settings.executor == "cpu"
    assert settings.budget.branches == 2
    assert settings.model == "openai:local"


def test_default_model_follows_from_what_is_configured(tmp_path: Path) -> None:
    assert load_settings({}, environment={}, folder=tmp_path).model == "offline"
    assert load_settings({}, environment={"OPENAI_API_KEY": "k"}, folder=tmp_path).model == "openai:gpt-5.1"
    local = {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "CUDA_HARNESS_MODEL_NAME": "m"}
    assert load_settings({}, environment=local, folder=tmp_path).model == "openai:m"
    given = {"OPENAI_API_KEY": "k", "CUDA_HARNESS_MODEL": "offline"}
    assert load_settings({}, environment=given, folder=tmp_path).model == "offline"


def test_the_key_is_a_secret(tmp_path: Path) -> None:
    settings = load_settings({}, environment={"OPENAI_API_KEY": "very-secret-key"}, folder=tmp_path)
    assert settings.provider.api_key is not None
    assert "very-secret-key" not in repr(settings)
    assert "very-secret-key" not in settings.model_dump_json()


@pytest.mark.parametrize(
    ("flags", "environment", "text", "part"),
    [
        ({}, {"CUDA_HARNESS_EXECUTER": "cpu"}, "", "unknown environment variable"),
        ({"branches": 0}, {}, "", "budget.branches"),
        ({}, {"CUDA_HARNESS_MAX_CALLS": "many"}, "", "max_calls"),
        ({}, {}, "executor = ", "cannot read"),
        ({}, {}, "exekutor = 'cpu'", "exekutor"),
        ({"max_usd": 1.0}, {}, "", "needs prices"),
    ],
)
def test_wrong_settings_are_named(
    tmp_path: Path, flags: dict[str, object], environment: dict[str, str], text: str, part: str
) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ConfigError, match=part) as caught:
        load_settings(flags, environment=environment, folder=tmp_path)
    assert caught.value.remedy


def test_money_is_countable_with_prices(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(TOML)
    assert load_settings({"max_usd": 1.0}, environment={}, folder=tmp_path).budget.max_usd == 1.0
