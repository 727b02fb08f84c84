"""Further words for tasks, from a file: answers to what a prompt leaves open."""

import json
from pathlib import Path

from cuda_harness.state.errors import ConfigError


def read_clarifications(path: Path) -> dict[tuple[int, int | None], str]:
    """Return further words by task and level from a JSONL file with `id`, `answers` and optionally `level`.

    Raises:
        ConfigError: If it cannot be read; the user acts.
    """
    found: dict[tuple[int, int | None], str] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        for line in filter(str.strip, lines):
            row = json.loads(line)
            level = int(row["level"]) if row.get("level") is not None else None
            answers = row["answers"]
            if isinstance(answers, dict):
                answers = [f"{what}: {said}" for what, said in answers.items()]
            text = answers if isinstance(answers, str) else "\n".join(f"- {a}" for a in answers)
            found[int(row["id"]), level] = text
    except (OSError, ValueError, KeyError, TypeError) as exc:
        msg = f"cannot read the answers in {str(path)!r}: {exc}"
        raise ConfigError(
            msg, remedy='write lines like {"id": 3, "level": 3, "answers": ["lr = 0.1"]}'
        ) from exc
    return found
