"""Opening a run: folder, manifest, versions."""

import platform
import secrets
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cuda_harness.graph.configure import refuse_uncounted
from cuda_harness.state.request import clean_request
from cuda_harness.state.settings import Settings
from cuda_harness.tools.archive.run_folder import RunFolder, new_run_id

_PACKAGES = (
    "cuda-harness",
    "langgraph",
    "langchain-openai",
    "pydantic",
    "numpy",
    "cuda-core",
    "nvidia-cuda-nvrtc",
)


def versions() -> dict[str, str | None]:
    """Return versions of what a result depends on; `None` where it is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def open_run(request: str | bytes, settings: Settings, *, run_id: str | None = None) -> tuple[RunFolder, str]:
    """Make the folder of a new run with its manifest; return it and the cleaned request.

    Raises:
        ConfigError: If the request is unusable or the folder cannot be made; the user acts.
    """
    text = clean_request(request)
    refuse_uncounted(settings)
    seed = settings.seed if settings.seed is not None else secrets.randbits(62)
    run_id = run_id or new_run_id()
    folder = RunFolder.create(Path(settings.out), run_id)
    manifest: dict[str, Any] = {
        "schema": "cuda-harness/manifest/1",
        "run_id": run_id,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seed": seed,
        "settings": settings.model_dump(mode="json"),
        "versions": versions(),
        "gpu": None,
    }
    folder.write_text("request.txt", text + "\n")
    folder.write_json("manifest.json", manifest)
    return folder, text
