"""Wordings that mean the same as a plainer one, said plainly before a request is taken to pieces."""

import re

from cuda_harness.agents.llm.offline.planning.marked import Marked
from cuda_harness.agents.llm.offline.planning.numbers import NUMBER

_TOGETHER = re.compile(
    rf"\( ?([mnk]), ?([mnk])(?:, ?([mnk]))? ?\) ?= ?\( ?({NUMBER}), ?({NUMBER})(?:, ?({NUMBER}))? ?\)"
)
"""`(m, n, k) = (256, 512, 128)`."""
_MATRIX_OF = re.compile(rf"\b(matri(?:x|ces) (?:of )?(?:size |shape )?)({NUMBER}) by ({NUMBER})(?![\w.])")
"""`a matrix of 512 by 256` is a shape, also behind `multiply`."""
_NAMED_SHAPE = re.compile(r"\b([mnk])x([mnk])(?= (?:\w+ )?matri)")
"""`MxK matrix`."""
_LEAST = frozenset({"min", "minimum", "smallest", "lowest", "least"})
_WITH_INDEX = re.compile(
    r"\b(?P<which>max|maximum|largest|greatest|biggest|min|minimum|smallest|lowest|least)(?: values?| elements?| entry| numbers?)?"
    r"(?:,)? (?:and|with|together with|along with|as well as)(?: also)? (?:its|their|the corresponding) (?:index|indices|positions?|locations?)"
)
"""A value and where it stands: two results."""


def reword(text: Marked) -> None:
    """Replace the wordings in the text."""
    text.replace(_TOGETHER, _apart)
    text.replace(_NAMED_SHAPE, lambda m: f"{m[1]} x {m[2]}")
    text.replace(_MATRIX_OF, lambda m: f"{m[1]}{m[2]} x {m[3]}")
    text.replace(_WITH_INDEX, lambda m: f"{m['which']} and arg{'min' if m['which'] in _LEAST else 'max'}")


def _apart(match: re.Match[str]) -> str | None:
    """Return names and sizes that stand in two brackets as pairs."""
    names, values = [[g for g in match.groups()[a:b] if g] for a, b in ((0, 3), (3, 6))]
    if len(names) != len(values) or len(set(names)) < len(names):
        return None
    return " , ".join(f"{n} = {v}" for n, v in zip(names, values, strict=True))
