"""What the user asked for, checked before a token is spent."""

import unicodedata

from cuda_harness.state.errors import ConfigError

MAX_REQUEST_CHARS = 40_000


def clean_request(text: str | bytes) -> str:
    """Return the request as plain text: trimmed, normalised, without control characters.

    Raises:
        ConfigError: If it is empty, binary or enormous; the user acts.
    """
    if isinstance(text, bytes):
        if b"\0" in text[:4096]:
            msg = "the request is binary data, not text"
            raise ConfigError(msg, remedy="describe the kernel in words, as UTF-8 text")
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            msg = f"the request is not UTF-8 text (byte {exc.start})"
            raise ConfigError(msg, remedy="save it as UTF-8") from exc
    if "\0" in text:
        msg = "the request is binary data, not text"
        raise ConfigError(msg, remedy="describe the kernel in words, as UTF-8 text")
    if len(text) > MAX_REQUEST_CHARS:
        msg = f"the request has {len(text)} characters; at most {MAX_REQUEST_CHARS} are read"
        raise ConfigError(msg, remedy="describe the kernel, and leave data and listings out")
    text = unicodedata.normalize("NFC", text)
    kept = "".join(c for c in text if c in "\n\t" or unicodedata.category(c)[0] != "C").strip()
    if not any(c.isalnum() for c in kept):
        msg = "the request is empty"
        raise ConfigError(
            msg,
            remedy='say what to compute, for example "softmax over each row of a 4096 x 1024 float32 matrix"',
        )
    return kept
