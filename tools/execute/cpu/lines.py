"""Line and column of a code address, from the line table of a compiled kernel (DWARF 5, section `.debug_line`)."""

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

_STRING, _LINE_STRING, _STRING_OFFSET = 0x08, 0x1F, 0x0E
_FIXED = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}
"""Sizes of the forms data1, data2, data4, data8, data16."""
_UDATA = 0x0F
_PATH = 1  # DW_LNCT_path
FIRST_LINE = '#line 1 "kernel.cu"\n'
"""What stands before the kernel's own text in a translation unit."""


@dataclass(frozen=True)
class Place:
    """Where in kernel.cu an instruction comes from, both counted from 1; column 0 where the compiler knows none."""

    line: int
    column: int


def place_of(library: Path, address: int) -> Place | None:
    """Return the place of the instruction at `address` (of the file, unrelocated) when it lies in kernel.cu itself.

    `None` for code of an included header, and for a table that is absent or of another form.
    """
    return places_of(library, [address]).get(address)


def places_of(library: Path, addresses: Iterable[int]) -> dict[int, Place]:
    """Return the places of several instructions, one pass over the table for all; without those `place_of` has none for."""
    try:
        sections = _sections(library.read_bytes())
        rows = sorted(_Table(sections[".debug_line"], sections.get(".debug_line_str", b"")).rows())
    except (OSError, KeyError, IndexError, ValueError, struct.error):
        return {}
    starts = [row.first for row in rows]
    found = {}
    for address in addresses:
        at = bisect_right(starts, address) - 1
        if at >= 0 and address < rows[at].end and rows[at].in_kernel:
            found[address] = Place(rows[at].line, rows[at].column)
    return found


def own_column(source: str, library: Path, place: Place) -> int:
    """Return the column that a place of the compiled text has in the kernel as its author wrote it.

    Args:
        source: kernel.cu of the author.
        library: What was compiled; the text it was compiled from lies beside it.
        place: A line, which both texts share, and a column of the compiled one.
    """
    try:
        compiled = library.with_name("kernel.cu").read_text(encoding="utf-8").split(FIRST_LINE, 1)[1]
        made, written = compiled.split("\n")[place.line - 1], source.split("\n")[place.line - 1]
    except (OSError, IndexError):
        return place.column
    column = 0
    for block in SequenceMatcher(None, made, written, autojunk=False).get_matching_blocks():
        if block.a >= place.column:
            break
        column = block.b + min(place.column - 1 - block.a, max(block.size - 1, 0))
    return column + 1


class _Row(NamedTuple):
    """Instructions from `first` up to `end`, exclusive, and where they come from."""

    first: int
    end: int
    in_kernel: bool
    line: int
    column: int


def _sections(data: bytes) -> dict[str, bytes]:
    offset = struct.unpack_from("<Q", data, 40)[0]
    size, count, names_index = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]
    names = headers[names_index][4]
    found = {}
    for name, kind, _flags, _address, at, length in headers:
        start = names + name
        title = data[start : data.index(b"\0", start)].decode("ascii", "replace")
        if title.startswith(".debug_line") and kind == 1:
            found[title] = data[at : at + length]
    return found


class _Table:
    def __init__(self, data: bytes, strings: bytes) -> None:
        self.data, self.strings = data, strings
        self.at = 0

    def rows(self) -> Iterator[_Row]:
        """Yield the rows of all units."""
        while self.at < len(self.data):
            length = self._fixed(4)
            end = self.at + length
            yield from self._unit(end)
            self.at = end

    def _unit(self, end: int) -> Iterator[_Row]:
        if self._fixed(2) != 5:
            msg = "another version of DWARF"
            raise ValueError(msg)
        self.at += 2  # sizes of an address and of a segment
        program = self._fixed(4) + self.at
        step = self._fixed(1)
        self.at += 2  # operations per instruction, is_stmt
        line_base = struct.unpack_from("<b", self.data, self.at)[0]
        self.at += 1
        line_range, opcode_base = self._fixed(1), self._fixed(1)
        lengths = list(self.data[self.at : self.at + opcode_base - 1])
        self.at += opcode_base - 1
        self._entries()
        names = self._entries()
        kernels = {i for i, name in enumerate(names) if name.rsplit("/", 1)[-1] == "kernel.cu"}
        self.at = program
        yield from self._run(end, step, (line_base, line_range, opcode_base), lengths, kernels)

    def _run(
        self, end: int, step: int, special: tuple[int, int, int], lengths: list[int], kernels: set[int]
    ) -> Iterator[_Row]:
        line_base, line_range, opcode_base = special
        pc, file, line, column = 0, 1, 1, 0
        before: tuple[int, int, int, int] | None = None
        while self.at < end:
            opcode = self._fixed(1)
            row = ended = False
            if opcode >= opcode_base:
                adjusted = opcode - opcode_base
                pc += adjusted // line_range * step
                line += line_base + adjusted % line_range
                row = True
            elif opcode == 0:
                after = self._uleb() + self.at
                kind = self._fixed(1)
                if kind == 1:
                    row = ended = True
                elif kind == 2:
                    pc = self._fixed(8)
                self.at = after
            elif opcode == 1:
                row = True
            elif opcode == 2:
                pc += self._uleb() * step
            elif opcode == 3:
                line += self._sleb()
            elif opcode == 4:
                file = self._uleb()
            elif opcode == 5:
                column = self._uleb()
            elif opcode == 8:
                pc += (255 - opcode_base) // line_range * step
            elif opcode == 9:
                pc += self._fixed(2)
            else:
                for _ in range(lengths[opcode - 1]):
                    self._uleb()
            if row:
                if before is not None and before[0] < pc:
                    yield _Row(before[0], pc, before[1] in kernels, before[2], before[3])
                before = (pc, file, line, column)
            if ended:
                pc, file, line, column, before = 0, 1, 1, 0, None

    def _entries(self) -> list[str]:
        """Read a table of folders or files; their paths."""
        forms = [(self._uleb(), self._uleb()) for _ in range(self._fixed(1))]
        paths = []
        for _ in range(self._uleb()):
            path = ""
            for content, form in forms:
                value = self._form(form)
                if content == _PATH:
                    path = value
            paths.append(path)
        return paths

    def _form(self, form: int) -> str:
        if form == _STRING:
            end = self.data.index(b"\0", self.at)
            text = self.data[self.at : end]
            self.at = end + 1
            return text.decode("utf-8", "replace")
        if form in {_LINE_STRING, _STRING_OFFSET}:
            start = self._fixed(4)
            if form == _STRING_OFFSET:
                return ""
            return self.strings[start : self.strings.index(b"\0", start)].decode("utf-8", "replace")
        if form == _UDATA:
            self._uleb()
        else:
            self.at += _FIXED[form]
        return ""

    def _fixed(self, size: int) -> int:
        value = int.from_bytes(self.data[self.at : self.at + size], "little")
        self.at += size
        return value

    def _uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def _sleb(self) -> int:
        start = self.at
        value = self._uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value
