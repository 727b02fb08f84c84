"""Sizes as people write them: 1,048,576, 2^20, 1M, 4K, 100k, 1 million, 1e6, 64 MiB."""

import re

NUMBER = (
    r"(?:\d+\s*(?:\^|\*\*)\s*\d+"
    r"|\d{1,3}(?:,\d{3})+(?!\d)"
    r"|\d+(?:\.\d+)?(?:e\+?\d+)?(?:\s*(?:thousand|million|billion)\b|\s?[kmg]i?\b(?!\s*[=x×]\s*\d))?)"
)
REAL = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
         "sixteen": 16, "hundred": 100, "thousand": 1000}  # fmt: skip
_SCALE = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_BINARY = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9}
_BYTES = re.compile(
    r"(?P<value>\d+(?:\.\d+)?)\s?(?:(?P<scale>[kmg])(?P<unit>i?b)|(?P<long>kilo|mega|giga|kibi|mebi|gibi)bytes?)"
)
BYTES = r"\d+(?:\.\d+)?\s?(?:[kmg]i?b|(?:kilo|mega|giga|kibi|mebi|gibi)bytes?)\b(?: (?:each|in total|in size|large|big))?"


def read_size(text: str) -> int | None:
    """Return the positive integer that `text` writes, `None` when it is no integer.

    K, M and G are powers of 1024 beside a power of two (4K, 64k, 1M) and of 1000 beside any other number (100k, 10M).
    """
    text = text.strip().lower().replace(",", "")
    power = re.fullmatch(r"(\d+)\s*(?:\^|\*\*)\s*(\d+)", text)
    if power:
        base, exponent = int(power[1]), int(power[2])
        return base**exponent if exponent <= 62 and base <= 1 << 20 else None
    match = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\+?\d+)?)\s*(thousand|million|billion|[kmg])?(i?)", text)
    if not match:
        return None
    value = float(match[1])
    two = value >= 1 and value == int(value) and int(value) & (int(value) - 1) == 0
    value *= (_SCALE | (_BINARY if match[3] or two else _DECIMAL)).get(match[2] or "", 1)
    return int(value) if value == int(value) and value < 1 << 62 else None


def read_bytes(text: str) -> int | None:
    """Return how many bytes `64 MiB`, `256 MB` or `2 gigabytes` are, `None` when the text states no amount of memory.

    MB are 2^20 bytes where the number is a power of two, as is usual for memory, and 10^6 otherwise; MiB always 2^20.
    """
    match = re.match(_BYTES, text.strip().lower())
    if match is None:
        return None
    value = float(match["value"])
    two = value >= 1 and value == int(value) and int(value) & (int(value) - 1) == 0
    letter = (match["scale"] or (match["long"] or "")[:1]) or ""
    binary = two or match["unit"] == "ib" or (match["long"] or "").endswith("bi")
    value *= (_BINARY if binary else _DECIMAL).get(letter, 1)
    return int(value) if value == int(value) else None
