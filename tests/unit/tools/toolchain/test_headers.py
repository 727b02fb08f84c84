"""Where headers are looked for: the wheels first, the inner headers of another place only of the same release."""

from pathlib import Path

import pytest

from cuda_harness.tools.toolchain import headers


def folder(root: Path, *, version: int | None, inner: bool) -> str:
    root.mkdir()
    if version is not None:
        (root / "cuda_runtime_api.h").write_text(f"#pragma once\n#define CUDART_VERSION  {version}\n")
    if inner:
        (root / "crt").mkdir()
        (root / "crt" / "mma.h").touch()
    return str(root)


@pytest.mark.parametrize(
    ("own", "wheel", "toolkit", "taken"),
    [
        (True, 13_000, 13_000, False),
        (False, 13_000, 13_000, True),
        (False, 13_000, 13_005, True),
        (False, 13_000, 12_090, False),
        (False, 13_000, None, False),
    ],
)
def test_inner_headers_come_from_a_toolkit_of_the_same_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool, wheel: int, toolkit: int | None, taken: bool
) -> None:
    first = folder(tmp_path / "wheel", version=wheel, inner=own)
    second = folder(tmp_path / "toolkit", version=toolkit, inner=True) if toolkit is not None else None
    monkeypatch.setattr("cuda.pathfinder.find_nvidia_header_directory", lambda _name: second)
    assert headers._inner_headers([first]) == ((second,) if taken else ())
