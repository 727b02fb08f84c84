"""Numbers and sizes as people write them: 1,048,576, 2^20, 1M, 4K, 1 million, 1e6."""

import re

NUMBER = (
    r"(?:\d+\s*(?:\^|\*\*)\s*\d+"
    r"|\d{1,3}(?:,\d{3})+(?!\d)"
    r"|\d+(?:\.\d+)?(?:e\+?\d+)?(?:\s*(?:thousand|million|billion)\b|\s?[kmg]i?b?\b(?!\s*[=x×]\s*\d))?)"
)
REAL = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
         "sixteen": 16, "hundred": 100, "thousand": 1000}  # fmt: skip
_SCALE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def read_size(text: str) -> int | None:
    """Return the positive integer that `text` writes, `None` when it is no integer; K, M and G are powers of 1024."""
    text = text.strip().lower().replace(",", "")
    power = re.fullmatch(r"(\d+)\s*(?:\^|\*\*)\s*(\d+)", text)
    if power:
        base, exponent = int(power[1]), int(power[2])
        return base**exponent if exponent <= 62 and base <= 1 << 20 else None
    match = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\+?\d+)?)\s*(thousand|million|billion|[kmg])?i?b?", text)
    if not match:
        return None
    value = float(match[1]) * _SCALE.get(match[2] or "", 1)
    return int(value) if value == int(value) and value < 1 << 62 else None
