import io
import json
import struct

import pytest

from cuda_harness.tools.frames import LENGTH, MAX_HEADER, read_frame, write_frame


class Dripping(io.RawIOBase):
    """A stream that gives one byte at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self._data.read(min(size, 1))


def frame(header: object, tail: bytes = b"") -> bytes:
    data = json.dumps(header).encode()
    return LENGTH.pack(len(data)) + data + tail


def test_frames_follow_each_other_and_come_back_whole() -> None:
    stream = io.BytesIO()
    write_frame(stream, {"do": "run"}, [b"abc", b"", b"\0" * 5])
    write_frame(stream, {"do": "end"})
    for source in (io.BytesIO(stream.getvalue()), Dripping(stream.getvalue())):
        assert read_frame(source, max_bytes=8) == (
            {"do": "run", "blobs": [3, 0, 5]},
            [b"abc", b"", b"\0" * 5],
        )  # type: ignore[arg-type]
        assert read_frame(source, max_bytes=0) == ({"do": "end", "blobs": []}, [])  # type: ignore[arg-type]
        with pytest.raises(EOFError):
            read_frame(source, max_bytes=0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (frame([1]), "without blob sizes"),
        (frame({}), "without blob sizes"),
        (frame({"blobs": [-1]}), "without blob sizes"),
        (frame({"blobs": ["1"]}), "without blob sizes"),
        (frame({"blobs": [5, 4]}), "beyond the bound of 8"),
        (struct.pack("<Q", MAX_HEADER + 1), "too large"),
        (LENGTH.pack(3) + b"no!", "Expecting"),
    ],
)
def test_a_frame_that_lies_is_refused_before_its_blobs_are_taken(data: bytes, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        read_frame(io.BytesIO(data), max_bytes=8)


def test_a_peer_that_ends_in_the_middle_is_seen() -> None:
    with pytest.raises(EOFError):
        read_frame(io.BytesIO(frame({"blobs": [4]}, b"ab")), max_bytes=8)
