"""Definitions by cases in words, rewritten as formulas: `if x > 0, output x; otherwise 0.1 * x`.

Only what parses to its end as expressions and comparisons is rewritten; anything else is left as it was, to be refused.
"""

import re
from dataclasses import dataclass

from cuda_harness.tools.formula.parse import longest_expression

_VALUE = r"(?:the |its |each |an |a )?(?:input |output )?(?:value|element|input|number|entry)(?: x| value| element)?"
_VERB = re.compile(
    r"^(?:(?:then|it should be|it should|it is|should be|the (?:corresponding )?(?:output|result)(?: element| value)?(?: is| equals| becomes| should be)?"
    r"|output(?:s|ted)?(?: is|s)?|return(?:s)?|set (?:it|(?:the )?output(?: element| value)?|y) to|set to|compute(?:s|d as)?|use(?:s)?|apply|give(?:s)?|the loss is"
    r"|y|f\(x\)|output\s*=|out|result)\s*(?:=|:|is|to)?\s*)+",
    re.IGNORECASE,
)
_RELATIONS: tuple[tuple[str, str], ...] = (
    (r"(?:is )?(?:less|smaller|lower) than or equal to|(?:is )?at most|≤", "<="),
    (r"(?:is )?(?:greater|larger|bigger) than or equal to|(?:is )?at least|≥", ">="),
    (r"(?:is )?(?:less|smaller|lower) than|(?:is )?below|falls below", "<"),
    (r"(?:is )?(?:greater|larger|bigger) than|(?:is )?above|exceeds", ">"),
)
_SIGNS: tuple[tuple[str, str], ...] = (
    (r"(?:is )?non[- ]?negative", ">= 0"), (r"(?:is )?non[- ]?positive", "<= 0"), (r"(?:is )?positive", "> 0"), (r"(?:is )?negative", "< 0"),
)  # fmt: skip
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_OTHER = r"(?:otherwise|else)"


@dataclass(frozen=True)
class _Case:
    value: str
    condition: str
    """Empty: in all other cases."""


def with_cases(text: str) -> str:
    """Return the text with every definition by cases as a formula `y = ... if ... else ...`."""
    if re.search(r"\bif\b", text, re.IGNORECASE) is None:
        return text
    kept: list[str] = []
    joined = re.sub(r"\.\s+(?=(?:Otherwise|Else|If)\b)", "; ", text)
    alpha = re.search(
        r"\balpha(?: (?:is|of|has the value))?(?: fixed(?: at| to)?| set to)?\s*=?\s*(-?\d+(?:\.\d+)?)", text
    )
    for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z0-9])", joined):
        by_cases = re.search(r"\bif\b", sentence, re.IGNORECASE) is not None
        kept.append(_sentence(_with_value(sentence, alpha) if alpha is not None and by_cases else sentence))
    return " ".join(kept)


def _with_value(sentence: str, alpha: re.Match[str]) -> str:
    """Return the sentence with the number for alpha, and without the words that state it."""
    stated = rf",?\s*(?:where|with|and|using)?\s*{re.escape(alpha[0])}(?![\d.]*\d)"
    return re.sub(r"\balpha\b", alpha[1], re.sub(stated, "", sentence))


def _sentence(sentence: str) -> str:
    sentence = sentence.replace("≤", "<=").replace("≥", ">=").replace("×", "*")
    if re.search(r"\bif\b", sentence, re.IGNORECASE) is None or re.search(r"\[|\?", sentence) is not None:
        return sentence
    starts = [0, *(m.end() for m in re.finditer(r"[:,]\s+|\b(?:compute|output|return|as)\s+", sentence))]
    for start in starts:
        cases = _cases(sentence[start:].rstrip(" ."))
        if cases is not None:
            return f"{sentence[:start]} y = {_nested(cases)} ."
    return sentence


def _cases(text: str) -> list[_Case] | None:
    """Return the cases that make up the whole text, the last one without a condition, or nothing."""
    text = re.sub(r"\s*\bwith\b[^,;]*$", "", text)
    parts = [p.strip() for p in re.split(r"\s*(?:[;,]|\bor\b(?! equal)|\band\b|\bbut\b)\s*(?=if\b|otherwise\b|else\b|[^;,]*\bif\b|[^;,]*\botherwise\b|\()|\s*;\s*|,\s+(?=\S+ otherwise)", text) if p.strip(" ,")]  # fmt: skip
    found: list[_Case] = []
    for part in parts:
        case = _case(part)
        if case is None:
            return None
        found.append(case)
    if len(found) < 2 or any(not c.condition for c in found[:-1]):
        return None
    last = found[-1]
    if last.condition:
        if not _opposite(found[-2].condition, last.condition) or len(found) != 2:
            return None
        found[-1] = _Case(last.value, "")
    return found


def _case(part: str) -> _Case | None:
    match = (
        re.fullmatch(rf"{_OTHER},?\s*(?P<value>.+)", part, re.IGNORECASE)
        or re.fullmatch(rf"(?P<value>.+?),?\s*{_OTHER}", part, re.IGNORECASE)
    )  # fmt: skip
    if match is not None:
        value = _expression(match["value"])
        return None if value is None else _Case(value, "")
    match = re.fullmatch(
        r"if (?P<condition>[^,:]+?)\s*[,:]\s*(?P<value>.+)", part, re.IGNORECASE
    ) or re.fullmatch(r"(?P<value>.+?)\s+if (?P<condition>.+)", part, re.IGNORECASE)
    if match is None:
        return None
    value, condition = _expression(match["value"]), _comparison(match["condition"])
    return None if value is None or condition is None else _Case(value, condition)


def _plain(text: str) -> str:
    text = re.sub(
        r"^(?:the )?(?:input |output )?(?:value|element|input) (?:itself|unchanged|as is)$", "x", text.strip()
    )
    text = re.sub(rf"\b{_VALUE}\b", "x", text)
    text = re.sub(r"\bx (?:itself|unchanged|as is)\b", "x", text)
    text = re.sub(r"\bzero\b", "0", text)
    text = re.sub(r"\bminus\b", "-", re.sub(r"\bplus\b", "+", text))
    return re.sub(r"\bmultiplied by\b|\btimes\b", "*", re.sub(r"\bdivided by\b", "/", text))


def _expression(text: str) -> str | None:
    text = _plain(_VERB.sub("", text.strip()))
    return text if _whole(text) else None


def _comparison(text: str) -> str | None:
    text = _plain(text)
    for pattern, sign in (*_SIGNS, *_RELATIONS):
        text = re.sub(rf"\b(?:{pattern})(?!\w)|(?<!\w)(?:{pattern})(?!\w)", f" {sign} ", text)
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"^(?=[<>])", "x ", text)
    match = re.fullmatch(r"(.+?) (<=|>=|<|>) (.+)", text)
    return text if match is not None and _whole(match[1]) and _whole(match[3]) else None


def _whole(text: str) -> bool:
    read = longest_expression(text)
    return read is not None and not text[read[1] :].strip()


def _opposite(one: str, two: str) -> bool:
    a, b = (re.fullmatch(r"(.+?) (<=|>=|<|>) (.+)", c) for c in (one, two))
    return a is not None and b is not None and (a[1], a[3]) == (b[1], b[3]) and _OPPOSITE[a[2]] == b[2]


def _nested(cases: list[_Case]) -> str:
    text = f"({cases[-1].value})"
    for case in reversed(cases[:-1]):
        text = f"(({case.value}) if {case.condition} else {text})"
    return text
