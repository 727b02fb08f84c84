"""The reference is what the code says now."""

from tests.reference import FILE, reference_text

import cuda_harness


def test_the_written_reference_is_current() -> None:
    assert FILE.read_text(encoding="utf-8") == reference_text(), "run `make reference`"


def test_every_public_name_stands_in_it() -> None:
    text = reference_text()
    for name in cuda_harness.__all__:
        assert name.startswith("__") or f"### `{name}(" in text
