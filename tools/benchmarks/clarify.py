"""Answers to what a prompt leaves open, from a file: as further words, or by assumption to what `--ask` asks."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from cuda_harness.state.errors import ConfigError

Answers = str | Mapping[str, str]
"""Words that are added to the request, or answers by what they are about."""


def read_clarifications(path: Path) -> dict[tuple[int, int | None], Answers]:
    """Return answers by task and level from a JSONL file with `id`, `answers` and optionally `level`.

    `answers` is a text or a list of texts (added to the request), or an object (answers to assumptions).

    Raises:
        ConfigError: If it cannot be read; the user acts.
    """
    found: dict[tuple[int, int | None], Answers] = {}
    try:
        for line in filter(str.strip, path.read_text(encoding="utf-8").splitlines()):
            row = json.loads(line)
            level = int(row["level"]) if row.get("level") is not None else None
            given = row["answers"]
            if isinstance(given, dict):
                found[int(row["id"]), level] = {str(k): str(v) for k, v in given.items()}
            else:
                found[int(row["id"]), level] = (
                    given if isinstance(given, str) else "\n".join(f"- {a}" for a in given)
                )
    except (OSError, ValueError, KeyError, TypeError) as exc:
        msg = f"cannot read the answers in {str(path)!r}: {exc}"
        raise ConfigError(
            msg, remedy='write lines like {"id": 3, "level": 3, "answers": ["lr = 0.1"]}'
        ) from exc
    return found


def as_text(answers: Answers) -> str:
    """Return answers as lines to be added to a request."""
    if isinstance(answers, str):
        return answers.strip()
    return "\n".join(f"- {what}: {said}" for what, said in answers.items())


def answers_to(asked: Iterable[str], answers: Mapping[str, str]) -> dict[str, str]:
    """Return the answers to what was asked: a question is met when it holds the answer's words, or the other way."""
    found = {}
    for what in asked:
        for about, said in answers.items():
            a, b = what.casefold(), about.casefold()
            if a and b and (a in b or b in a):
                found[what] = said
                break
    return found
