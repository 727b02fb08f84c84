"""The base of every model, canonical JSON, and schema versions."""

import ast
import hashlib
import json
import textwrap
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cuda_harness.state.errors import ConfigError


class Model(BaseModel):
    """A frozen value; unknown keys are refused, so a typo is never silently lost."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        use_enum_values=True,
        ser_json_inf_nan="constants",
        allow_inf_nan=True,
    )


class Document(Model):
    """A model that is a file: it carries `schema`, and refuses a major version it does not know."""

    KIND: ClassVar[str] = ""
    """`name/major`, for example `cuda-harness/ir/1`."""

    schema_: str = Field(default="", alias="schema", description="Name and major version of this document.")

    @model_validator(mode="before")
    @classmethod
    def _check_schema(cls, data: Any) -> Any:  # noqa: ANN401 - pydantic hands over anything
        if not isinstance(data, dict):
            return data
        found = data.get("schema", data.get("schema_")) or cls.KIND
        if found != cls.KIND:
            msg = f"schema {found!r} is not readable here: this version of CUDA-Harness reads {cls.KIND!r}"
            raise ValueError(msg)
        return {**{k: v for k, v in data.items() if k != "schema_"}, "schema": cls.KIND}

    def to_json(self, *, indent: int | None = 1) -> str:
        """Return the document as JSON text with contract names, ending in a newline."""
        data = self.model_dump(mode="json", by_alias=True)
        return json.dumps(data, indent=indent, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, path: Path, *, max_bytes: int = 8 << 20) -> Self:
        """Return the document in `path`.

        Raises:
            ConfigError: If the file is missing, too large, not UTF-8 JSON or not such a document; the user acts.
        """
        try:
            if path.stat().st_size > max_bytes:
                msg = f"{str(path)!r} is larger than {max_bytes} bytes"
                raise ConfigError(msg, remedy="check that this is the right file")
            text = path.read_text(encoding="utf-8")
        except OSError as exc:
            msg = f"cannot read {str(path)!r}: {exc.strerror or exc}"
            raise ConfigError(msg, remedy="check the path and its permissions") from exc
        except UnicodeDecodeError as exc:
            msg = f"{str(path)!r} is not UTF-8 text"
            raise ConfigError(msg, remedy="save it as UTF-8 JSON") from exc
        return cls.parse(text, where=str(path))

    @classmethod
    def parse(cls, text: str, *, where: str) -> Self:
        """Return the document in `text`; `where` names its source in messages.

        Raises:
            ConfigError: If it is not such a document; every fault is listed with its place.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as exc:
            msg = f"{where} is not JSON: {exc}"
            raise ConfigError(msg, remedy="mend the JSON") from exc
        try:
            return cls.model_validate(data)
        except ValidationError as exc:
            msg = f"{where} is not a valid {cls.KIND}:\n" + describe(exc)
            raise ConfigError(msg, remedy="mend the fields named above") from exc


def describe(error: ValidationError, *, most: int = 12) -> str:
    """Return the faults of `error`, one a line with its place; at most `most`."""
    lines = []
    for fault in error.errors(include_url=False)[:most]:
        place = ".".join(str(part) for part in fault["loc"]) or "(document)"
        message = fault["msg"].removeprefix("Value error, ")
        lines.append(f"  {place}: {message}")
    hidden = error.error_count() - len(lines)
    if hidden > 0:
        lines.append(f"  ... and {hidden} more")
    return "\n".join(lines)


def canonical_json(value: Any) -> str:  # noqa: ANN401 - any JSON value or model
    """Return `value` as JSON with sorted keys and no spaces: equal values give equal text."""

    def plain(item: Any) -> Any:  # noqa: ANN401 - models inside containers
        if isinstance(item, BaseModel):
            return item.model_dump(mode="json", by_alias=True)
        msg = f"{type(item).__name__} is not JSON"
        raise TypeError(msg)

    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=plain)


def clipped(text: str, most: int) -> str:
    """Return a text on one line of at most so many characters, cut between words where there are any."""
    found = textwrap.shorten(text, most, placeholder=" ...")
    line = " ".join(text.split())
    return found if len(found) > most // 2 or len(line) <= most else line[: most - 4] + " ..."


def sha256(value: Any) -> str:  # noqa: ANN401 - any JSON value, model, text or bytes
    """Return the hex SHA-256 of bytes, text, or the canonical JSON of any other value."""
    if isinstance(value, str):
        value = value.encode()
    elif not isinstance(value, bytes):
        value = canonical_json(value).encode()
    return hashlib.sha256(value).hexdigest()


_PARSE_TRIES = 50


def parse_python(text: str, mode: Literal["exec", "eval"] = "exec") -> Any:  # noqa: ANN401 - Module or Expression
    """Return the syntax tree of `text`, as `ast.parse` does, from any thread.

    CPython 3.11 counts the depth of the tree that it builds for all threads together (gh-106905): one that is
    interrupted by another may end in a SystemError that says nothing about the text, and is begun again.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: As `ast.parse`.
    """
    for _ in range(_PARSE_TRIES - 1):
        try:
            return ast.parse(text, mode=mode)
        except SystemError:
            continue
    return ast.parse(text, mode=mode)
