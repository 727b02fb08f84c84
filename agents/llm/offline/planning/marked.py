"""A request while it is read: what has been understood is replaced, what is left must be filler."""

import re
from collections.abc import Callable


class Marked:
    """Lower-case text in which understood spans give way to blanks or markers."""

    def __init__(self, text: str) -> None:
        self.text = text

    def replace(self, pattern: re.Pattern[str], take: Callable[[re.Match[str]], str | None]) -> None:
        """Offer every match to `take`; what it returns takes the match's place, `None` leaves it."""

        def put(match: re.Match[str]) -> str:
            made = take(match)
            return match[0] if made is None else made

        self.text = _spaced(pattern.sub(put, self.text))

    def take(self, pattern: str, mark: str = " ") -> re.Match[str] | None:
        """Take the first match out of the text and return it."""
        match = re.search(pattern, self.text)
        if match is not None:
            self.text = _spaced(self.text[: match.start()] + mark + self.text[match.end() :])
        return match


def _spaced(text: str) -> str:
    """Return the text with single blanks, so that patterns go over what was taken out."""
    return re.sub(r"\s+", " ", text)
