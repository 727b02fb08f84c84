"""Executors by name: what `auto` means, and which names there are."""

from pathlib import Path

import pytest

from cuda_harness.state.errors import ConfigError, ExecutorUnavailable
from cuda_harness.state.settings import Settings
from cuda_harness.tools.execute.registry import executor, has_gpu


@pytest.mark.parametrize(
    ("files", "visible", "found"),
    [
        ((), None, False),
        (("nvidiactl",), None, False),
        (("nvidiactl", "nvidia0"), None, True),
        (("nvidiactl", "nvidia0"), "GPU-1", True),
        (("nvidiactl", "nvidia0"), "", False),
        (("nvidiactl", "nvidia0"), "-1", False),
    ],
)
def test_a_gpu_counts_when_its_driver_is_here_and_it_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...], visible: str | None, found: bool
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    for name in files:
        (tmp_path / name).touch()
    assert has_gpu(tmp_path) is found


def test_names_that_are_none_are_told() -> None:
    with pytest.raises(ConfigError, match="unknown executor 'tpu'") as caught:
        executor("tpu", settings=Settings())
    assert "cuda" in caught.value.remedy
    with pytest.raises(ExecutorUnavailable, match="its number, its UUID or `auto`"):
        executor("cuda:first", settings=Settings())
