"""Inline PTX as C++: parses one `asm` statement and translates each instruction by the table of `ptx_table`.

What the table does not know makes the kernel `unsupported` on this executor (a GPU runs it); it is never a rule.
"""

import re
from dataclasses import dataclass

from cuda_harness.tools.execute.cpu.ptx_table import SPECIAL_REGISTERS, TYPES, Instruction, instruction_text

_HEAD = re.compile(r"\s*(?:asm|__asm__|__asm)\b\s*(?:volatile|__volatile__|inline|\s)*\(")
_STRING = re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL)
_OPERAND = re.compile(r'\s*(?:\[\s*(\w+)\s*\]\s*)?"([^"]*)"\s*\((.*)\)\s*\Z', re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INSTRUCTION = re.compile(r"(?:@(!?)\s*(%?[\w$%\[\]]+)\s+)?([a-z][\w.:]*)\s*(.*)\Z", re.DOTALL)
_REGISTER = re.compile(r"\.reg\s+\.(\w+)\s+(.*)\Z", re.DOTALL)
_ESCAPES = {"n": "\n", "t": " ", "r": " ", '"': '"', "\\": "\\"}


class UnknownPtx(Exception):  # noqa: N818 - names a condition, as data for the caller
    """An instruction or operand that is not in the table; `instruction` is its text."""

    def __init__(self, instruction: str) -> None:
        super().__init__(instruction)
        self.instruction = instruction


@dataclass(frozen=True)
class _Asm:
    template: str
    outputs: tuple[tuple[str, str, str], ...]
    """Name (may be empty), constraint and C++ expression of each."""
    inputs: tuple[tuple[str, str, str], ...]


def translate(statement: str) -> str | None:
    """Return one line of C++ that does what an asm statement (without its `;`) does, `None` if it is not known."""
    try:
        return translate_asm(statement)
    except UnknownPtx:
        return None


def unknown_instruction(statement: str) -> str | None:
    """Return the text of the first instruction that `translate` does not know, `None` when it knows all."""
    try:
        translate_asm(statement)
    except UnknownPtx as exc:
        return exc.instruction
    return None


def translate_asm(statement: str) -> str:
    """Return the C++ of an asm statement.

    Raises:
        UnknownPtx: An instruction, operand or form outside the table; the caller reports it as unsupported.
    """
    parsed = _parse(statement)
    names: dict[str, str] = {}
    lines: list[str] = []
    for index, (name, constraint, expression) in enumerate((*parsed.outputs, *parsed.inputs)):
        local = f"sim_a{index}"
        is_output = index < len(parsed.outputs)
        lines.append(f"auto{'&' if is_output else ''} {local} = {_decayed(expression, is_output=is_output)};")
        if not constraint.strip("=+&%") or constraint.strip("=+&%")[0] not in "rlhfdnqCsX":
            unknown = f"constraint {constraint}"
            raise UnknownPtx(unknown)
        names[f"%{index}"] = local
        if name:
            names[f"%[{name}]"] = local
    carry = ".cc" in parsed.template or re.search(r"\b(?:addc|subc|madc)\b", parsed.template)
    if carry:
        lines.append("unsigned sim_carry = 0;")
    lines += [_one(text, names) for text in _statements(parsed.template)]
    return " ".join(("{", *lines, "}"))


def _decayed(expression: str, *, is_output: bool) -> str:
    text = " ".join(expression.split())
    return f"({text})" if is_output else f"({text}) + 0" if re.fullmatch(r"-?\d+", text) else f"({text})"


def _parse(statement: str) -> _Asm:
    head = _HEAD.match(statement)
    if head is None:
        raise UnknownPtx(statement.strip()[:80])
    end = statement.rstrip().rstrip(";").rstrip()
    sections = _split(end[head.end() : -1], ":")
    template = "".join(_unescape(m.group(1)) for m in _STRING.finditer(sections[0]))
    if not _STRING.search(sections[0]) or _STRING.sub("", sections[0]).strip():
        unknown = "asm text that is not made of string literals"
        raise UnknownPtx(unknown)
    return _Asm(
        _COMMENT.sub(" ", template),
        _operands(sections[1]) if len(sections) > 1 else (),
        _operands(sections[2]) if len(sections) > 2 else (),
    )


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m.group(1), m.group(1)), text, flags=re.DOTALL)


def _operands(section: str) -> tuple[tuple[str, str, str], ...]:
    found = []
    for part in _split(section, ","):
        if not part.strip():
            continue
        match = _OPERAND.match(part)
        if match is None:
            unknown = f"operand {part.strip()[:60]}"
            raise UnknownPtx(unknown)
        found.append((match.group(1) or "", match.group(2), match.group(3)))
    return tuple(found)


def _split(text: str, separator: str) -> list[str]:
    """Split at `separator` outside brackets and strings; `::` counts as two separators in asm, not inside brackets."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        char = text[at]
        if char == '"':
            string = _STRING.match(text, at)
            at = string.end() if string else at + 1
            continue
        depth += (char in "([{") - (char in ")]}")
        if char == separator and depth == 0:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    return [*parts, text[start:]]


def _statements(template: str) -> list[str]:
    """Return instructions and braces of an asm text, in order."""
    found: list[str] = []
    depth = 0
    current = ""
    for char in template:
        vector = depth > 0 or (char == "{" and current.strip() != "")
        if char == "{" and vector:
            depth += 1
        elif char == "}" and depth > 0:
            depth -= 1
        elif char in "{}":
            found.append(char)
            continue
        elif char == ";":
            found.append(current.strip())
            current = ""
            continue
        current += char
    if current.strip():
        found.append(current.strip())
    return [text for text in found if text]


def _one(text: str, names: dict[str, str]) -> str:
    if text in {"{", "}"}:
        return text
    register = _REGISTER.match(text)
    if register:
        return _declare(text, register, names)
    match = _INSTRUCTION.match(text)
    if match is None or ":" in match.group(3).replace("::", ""):
        raise UnknownPtx(text)
    negated, predicate, opcode, rest = match.groups()
    operands = tuple(_value(part.strip(), names, text) for part in _split(rest, ",") if part.strip())
    code = instruction_text(Instruction(tuple(opcode.split(".")), operands))
    if code is None:
        raise UnknownPtx(" ".join(text.split()))
    if predicate:
        return f"if ({'!' if negated else ''}{_value(predicate, names, text)}) {{ {code} }}"
    return code


def _declare(text: str, register: re.Match[str], names: dict[str, str]) -> str:
    ctype = "bool" if register.group(1) == "pred" else TYPES.get(register.group(1))
    if ctype is None:
        raise UnknownPtx(text)
    declared = []
    for part in register.group(2).split(","):
        many = re.fullmatch(r"\s*(%?[\w$]+)<(\d+)>\s*", part)
        words = [f"{many.group(1)}{i}" for i in range(int(many.group(2)))] if many else [part.strip()]
        for word in words:
            if not re.fullmatch(r"[%\w$]+", word):
                raise UnknownPtx(text)
            names[word.replace("%%", "%")] = local = "sim_r_" + re.sub(r"\W", "_", word)
            declared.append(local)
    return "".join(f"{ctype} {name}{{}};" for name in declared)


def _value(text: str, names: dict[str, str], where: str) -> str:
    """Return the C++ of an operand; addresses come back as `[base|offset]`, vectors as `{a|b}`."""
    if text.startswith("[") and text.endswith("]"):
        base, _, offset = text[1:-1].partition("+")
        return f"[{_value(base.strip(), names, where)}|{_value(offset.strip() or '0', names, where)}]"
    if text.startswith("{") and text.endswith("}"):
        return "{" + "|".join(_value(part.strip(), names, where) for part in text[1:-1].split(",")) + "}"
    if "|" in text:
        first, second = text.split("|", 1)
        return f"<{_value(first.strip(), names, where)}|{_value(second.strip(), names, where)}>"
    if text.startswith(("!", "-")) and not re.match(r"-?\d", text):
        return f"({text[0]}{_value(text[1:].strip(), names, where)})"
    if re.fullmatch(r"%(\d+|\[\w+\])", text):
        if text not in names:
            raise UnknownPtx(where)
        return names[text]
    plain = text.replace("%%", "%")
    if plain in names:
        return names[plain]
    if plain in SPECIAL_REGISTERS:
        return SPECIAL_REGISTERS[plain]
    if plain == "_":
        return "_"
    bits = re.fullmatch(r"0([fFdD])([0-9a-fA-F]+)", plain)
    if bits:
        single = bits.group(1) in "fF"
        return f"::simh::bits<{'float' if single else 'double'}>(0x{bits.group(2)}{'u' if single else 'ull'})"
    if re.fullmatch(r"-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?", plain):
        return f"{plain.rstrip('U')}ll" if int(plain.rstrip("U"), 0) >= -(2**63) else plain
    raise UnknownPtx(where)
