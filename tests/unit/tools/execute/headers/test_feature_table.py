"""docs/cpu_features.md says what the tests run, no more and no less."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).with_name("feature_table.py")


def test_the_page_is_current() -> None:
    script = runpy.run_path(str(SCRIPT))

    assert script["PAGE"].read_text(encoding="utf-8") == script["render"](), f"run python {SCRIPT.name}"
