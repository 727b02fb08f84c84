import pytest

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.request import MAX_REQUEST_CHARS, clean_request


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("", "empty"),
        ("  \n\t ", "empty"),
        ("!?", "empty"),
        ("a" * (MAX_REQUEST_CHARS + 1), "characters"),
        (b"ab\x00cd", "binary"),
        ("ab\x00cd", "binary"),
        (b"\xff\xfe", "UTF-8"),
    ],
)
def test_unusable_requests(given: str | bytes, part: str) -> None:
    with pytest.raises(ConfigError, match=part) as caught:
        clean_request(given)
    assert caught.value.remedy


def test_control_characters_go_and_words_stay() -> None:
    assert clean_request(b"\xef\xbb\xbf  softmax\x1b[31m of\tx\n") == "softmax[31m of\tx"
