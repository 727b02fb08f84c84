"""Numbers as people write them, rewritten as digits: `one million`, `half a million`, `1<<20`, `10 000`, `2**20`."""

import re

_ONES = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9}
_TEENS = {"ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17,
          "eighteen": 18, "nineteen": 19}  # fmt: skip
_TENS = {
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_PARTS = {"half": 0.5, "quarter": 0.25}
_SMALL = _ONES | _TEENS | _TENS
_DIGITS = r"\d+(?:\.\d+)?"
_WORD = "|".join((*_SMALL, *_SCALES))
_SPOKEN = re.compile(
    rf"\b(?:(?:a|an) (?=(?:hundred|thousand|million|billion|dozen)\b)|{_DIGITS} ?(?=(?:hundred|thousand|million|billion)s?\b))?"
    rf"(?:{_WORD})(?:(?: and|-| )+(?:{_WORD}))*\b",
    re.IGNORECASE,
)
_PART = re.compile(
    r"\b(?:(?P<whole>\d+|one|two|three|four|five) and (?:a |one )?)?(?P<part>half|quarter)(?:(?: of)? a)? (?P<scale>hundred|thousand|million|billion)\b"
    r"|\b(?:a |one )(?P<part2>half|quarter)[ -](?P<scale2>thousand|million|billion)\b",
    re.IGNORECASE,
)
_SHIFT = re.compile(r"(?<![\w.<])(?P<one>\d{1,6})\s*<<\s*(?P<by>\d{1,2})(?![\w.])")
_POWER = re.compile(
    r"(?<![\w.^*])(?P<base>2|10)\s*(?:\^|\*\*)\s*(?:\{\s*)?(?P<exponent>\d{1,2})(?:\s*\})?(?![\w.^*])"
)
_GROUPS = re.compile(
    r"(?<![\w.,])\d{1,3}(?:[ \u00a0\u202f_'](?:000))+(?![\w.])|(?<![\w.])\d{1,3}(?:_\d{3})+(?![\w.])"
)
_TIMES = re.compile(
    r"(?<![\w.*])(?P<one>\d+)\s*\*\s*(?P<two>\d+)(?:\s*\*\s*(?P<three>\d+))?(?=\s+(?:elements|entries|values|numbers|floats|doubles)\b)"
)


def plain_numbers(text: str) -> str:
    """Return the text with spoken numbers, shifts, powers of 2 and 10, and digits in groups as plain digits.

    A small number word alone (`two vectors`, `the one above`) stays a word: it counts operands or means nothing.
    """
    text = _SHIFT.sub(lambda m: str(int(m["one"]) << int(m["by"])), text)
    text = _POWER.sub(lambda m: str(int(m["base"]) ** int(m["exponent"])), text)
    text = _GROUPS.sub(lambda m: re.sub(r"\D", "", m[0]), text)
    text = _TIMES.sub(lambda m: str(int(m["one"]) * int(m["two"]) * int(m["three"] or 1)), text)
    text = _PART.sub(_fraction, text)
    return _SPOKEN.sub(_spoken, text)


def _fraction(match: re.Match[str]) -> str:
    part, scale = match["part"] or match["part2"], match["scale"] or match["scale2"]
    said = (match["whole"] or "0").lower()
    return str(int((float(_ONES.get(said, said)) + _PARTS[part.lower()]) * _SCALES[scale.lower()]))


def _spoken(match: re.Match[str]) -> str:
    """Return the digits of a spoken number, and a small number word as it was."""
    words = re.findall(rf"{_DIGITS}|[a-z]+", match[0].lower())
    if not any(w in _SCALES or w in _TEENS or w in _TENS for w in words) or words == ["ten"]:
        return match[0]
    total, current = 0.0, 0.0
    for word in words:
        if word in _SMALL:
            current += _SMALL[word]
        elif word == "hundred":
            current = (current or 1) * 100
        elif word in _SCALES:
            total, current = total + (current or 1) * _SCALES[word], 0.0
        elif word not in {"a", "an", "and"}:
            current += float(word)
    value = total + current
    return str(int(value)) if value == int(value) else match[0]
