"""A prompt read back: the role from its header, the evidence from its sections."""

import json
import re
from dataclasses import dataclass
from typing import Any

_HEADER = re.compile(r"<!--\s*role:\s*(?P<role>[a-z]+);\s*version:\s*\d+\s*-->")
_OPEN = re.compile(r"^(?P<fence>`{3,})(?P<tag>[^`\n]*)$")


@dataclass(frozen=True)
class Question:
    """Who is asked, and the fenced text of each section."""

    role: str
    sections: dict[str, str]
    text: str

    def json(self, heading: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return the JSON value of a section, `None` when there is no such section or it holds none."""
        try:
            return json.loads(self.sections[heading])
        except (KeyError, ValueError, RecursionError):
            return None


def read_prompt(system: str, human: str) -> Question:
    """Return the question that two messages hold; the role is empty when the header is missing."""
    header = _HEADER.match(system.lstrip())
    return Question(header["role"] if header else "", _sections(human), human)


def _sections(human: str) -> dict[str, str]:
    """Return heading -> contents of the first fence below it; a heading inside a fence is text."""
    found: dict[str, str] = {}
    heading = fence = ""
    lines: list[str] = []
    for line in human.split("\n"):
        if fence:
            if line.strip("`") == "" and len(line) >= len(fence):
                if heading:
                    found.setdefault(heading, "\n".join(lines))
                fence, heading, lines = "", "", []
            else:
                lines.append(line)
            continue
        opened = _OPEN.match(line)
        if opened:
            fence, lines = opened["fence"], []
        elif line.startswith("## "):
            heading = line[3:].strip()
            found.pop(heading, None)
        elif line.startswith("# "):
            heading = line[2:].strip()
    return found
