"""The run's folder (CONTRACT.md 7): atomic, synced files, so that a kill at any moment loses no finished work."""

import contextlib
import json
import os
import secrets
import time
from pathlib import Path
from typing import Any

from cuda_harness.state.errors import ConfigError, StateError
from cuda_harness.state.kernel import Kernel, LaunchPlan

_MAX_READ = 64 << 20


def new_run_id(now: float | None = None) -> str:
    """Return a sortable, unique run id: UTC time and six random hex digits."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    return f"{stamp}-{secrets.token_hex(3)}"


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees all of it or the old file, also after a power cut.

    Raises:
        ConfigError: If the disk is full or the folder may not be written; the user acts.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as exc:
        with contextlib.suppress(OSError):
            temporary.unlink()
        msg = f"cannot write {str(path)!r}: {exc.strerror or exc}"
        raise ConfigError(msg, remedy="free disk space or choose another folder with --out") from exc


class RunFolder:
    """Reads and writes one run; every path is confined to it."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    @classmethod
    def create(cls, out: Path, run_id: str) -> "RunFolder":
        """Make `out/run_id` and return it.

        Raises:
            ConfigError: If it cannot be made; the user acts.
        """
        root = out / run_id
        try:
            root.mkdir(parents=True)
        except FileExistsError as exc:
            msg = f"the run folder {str(root)!r} exists already"
            raise ConfigError(msg, remedy="choose another --out, or `cuda-harness resume` it") from exc
        except OSError as exc:
            msg = f"cannot create the run folder {str(root)!r}: {exc.strerror or exc}"
            raise ConfigError(msg, remedy="choose a writable folder with --out") from exc
        return cls(root)

    @classmethod
    def open(cls, root: Path) -> "RunFolder":
        """Return the existing run in `root`.

        Raises:
            ConfigError: If there is no run; the user acts.
        """
        if not (root / "manifest.json").is_file():
            msg = f"{str(root)!r} is not a run folder (it has no manifest.json)"
            raise ConfigError(msg, remedy="give the folder that `generate` printed, runs/<run id>")
        return cls(root)

    def path(self, relative: str) -> Path:
        """Return the path of a file of this run; raises StateError if it would leave the folder."""
        path = (self.root / relative).resolve()
        if not path.is_relative_to(self.root):
            msg = f"path {relative!r} leaves the run folder"
            raise StateError(msg)
        return path

    def exists(self, relative: str) -> bool:
        """Return whether the file is there."""
        return self.path(relative).is_file()

    def write_text(self, relative: str, text: str) -> Path:
        """Write UTF-8 text atomically and return its path."""
        path = self.path(relative)
        write_atomically(path, text.encode("utf-8", "backslashreplace"))
        return path

    def read_text(self, relative: str) -> str:
        """Return the text of a file; raises ConfigError when it is missing, unreadable or too large."""
        path = self.path(relative)
        try:
            if path.stat().st_size > _MAX_READ:
                msg = f"{str(path)!r} is larger than {_MAX_READ} bytes"
                raise ConfigError(msg)
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            msg = f"cannot read {str(path)!r}: {exc}"
            raise ConfigError(msg, remedy="the run folder is damaged; start a new run") from exc

    def write_json(self, relative: str, value: Any) -> Path:  # noqa: ANN401 - any JSON value
        """Write a JSON value atomically and return its path."""
        return self.write_text(relative, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def read_json(self, relative: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return the JSON value of a file; raises ConfigError."""
        try:
            return json.loads(self.read_text(relative))
        except (ValueError, RecursionError) as exc:
            msg = f"{str(self.path(relative))!r} is not JSON: {exc}"
            raise ConfigError(msg, remedy="the run folder is damaged; start a new run") from exc

    def attempt_dir(self, attempt: int) -> str:
        """Return the relative folder of an attempt, `attempts/007`."""
        return f"attempts/{attempt:03d}"

    def save_kernel(self, attempt: int, kernel: Kernel) -> None:
        """Write kernel.cu and plan.json of an attempt."""
        self.write_text(f"{self.attempt_dir(attempt)}/kernel.cu", kernel.source)
        self.write_text(f"{self.attempt_dir(attempt)}/plan.json", kernel.plan.to_json())

    def load_kernel(self, attempt: int) -> Kernel:
        """Return the kernel of an attempt; raises ConfigError."""
        folder = self.attempt_dir(attempt)
        plan = LaunchPlan.parse(self.read_text(f"{folder}/plan.json"), where=f"{folder}/plan.json")
        return Kernel(source=self.read_text(f"{folder}/kernel.cu"), plan=plan)

    def save_best(self, attempt: int, *, ir: str, reference: str, inputs: str | None) -> Path:
        """Make `best/` the bundle of an attempt: all files first, then one rename per file; returns its path."""
        kernel = self.load_kernel(attempt)
        self.write_text("best/ir.json", ir)
        self.write_text("best/reference.py", reference)
        if inputs is not None:
            self.write_text("best/inputs.json", inputs)
        self.write_text("best/plan.json", kernel.plan.to_json())
        self.write_text("best/kernel.cu", kernel.source)
        return self.path("best")
