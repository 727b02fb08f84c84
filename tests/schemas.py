"""Writes `docs/schemas/*.json` from the models: `make schemas`."""

import json
from pathlib import Path

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import LaunchPlan
from cuda_harness.state.results import Verdict

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schemas"
MODELS = {"ir-1": KernelIR, "plan-1": LaunchPlan, "verdict-1": Verdict}


def schema_text(name: str) -> str:
    """Return the JSON schema of a document as it stands in the file."""
    schema = MODELS[name].model_json_schema(by_alias=True, mode="serialization")
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def main() -> None:
    """Write every schema."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        (FOLDER / f"{name}.json").write_text(schema_text(name))


if __name__ == "__main__":
    main()
