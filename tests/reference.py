"""Writes `docs/reference.md` from the code: commands, settings, Python names. `make reference`."""

import inspect
import re
from pathlib import Path
from typing import Any

import click
import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

FILE = Path(__file__).resolve().parents[1] / "docs" / "reference.md"
HEAD = """# Reference

Written from the code by `make reference`; do not edit it by hand. Documents: [schemas](schemas).
"""
EXIT_CODES = (
    ("0", "a verified kernel, or the command's plain success"),
    ("1", "the run ended in order without one; a kernel was rejected or undecided"),
    ("2", "usage or configuration"),
    ("4", "the model provider failed or refused"),
    ("5", "this machine lacks something the command needs; it is named, with the remedy"),
    ("70", "a bug in CUDA-Harness"),
)


def reference_text() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *_commands(), *_settings(), *_python(), *_plugins()]).rstrip() + "\n"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    def line(cells: tuple[str, ...]) -> str:
        return "| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in cells) + " |"

    return [line(head), "|" + "---|" * len(head), *map(line, rows), ""]


def _commands() -> list[str]:
    from cuda_harness.graph.cli import app

    root: Any = typer.main.get_command(app)
    lines = ["## Commands", "", "`cuda-harness COMMAND`, or `python -m cuda_harness COMMAND`.", ""]
    for name, command in _leaves(root, ""):
        lines += [f"### `{name}`", "", _paragraph(command.help), ""]
        rows = []
        for parameter in command.params:
            if isinstance(parameter, click.Argument) or parameter.param_type_name == "argument":
                rows.append((f"`{(parameter.name or '').upper()}`", getattr(parameter, "help", None) or ""))
            else:
                rows.append((f"`{' '.join(parameter.opts)}`", getattr(parameter, "help", None) or ""))
        lines += _table(("argument or option", "meaning"), rows)
    lines += ["### Exit codes", "", *_table(("code", "meaning"), list(EXIT_CODES))]
    return lines


def _leaves(group: Any, prefix: str) -> list[tuple[str, Any]]:
    found = []
    for name, command in group.commands.items():
        if hasattr(command, "commands") and command.commands:
            found += _leaves(command, f"{prefix}{name} ")
        else:
            found.append((prefix + name, command))
    return found


def _settings() -> list[str]:
    from cuda_harness.graph.configure import _ENVIRONMENT
    from cuda_harness.graph.configure import FILE as SETTINGS_FILE
    from cuda_harness.state.settings import Settings

    variables = {path: f"`CUDA_HARNESS_{name}`" for name, path in _ENVIRONMENT.items()}
    rows = []
    for path, default, note in _fields(Settings, (), _notes(Settings)):
        rows.append((f"`{'.'.join(path)}`", variables.get(path, ""), default, note))
    return [
        "## Settings", "",
        f"Flag, then environment, then `{SETTINGS_FILE}`, then default. `OPENAI_API_KEY` and `OPENAI_BASE_URL` are read too.", "",
        *_table(("setting", "environment", "default", "meaning"), rows),
    ]  # fmt: skip


def _fields(
    model: type[BaseModel], above: tuple[str, ...], notes: dict[str, str]
) -> list[tuple[tuple[str, ...], str, str]]:
    found: list[tuple[tuple[str, ...], str, str]] = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        if inspect.isclass(inner) and issubclass(inner, BaseModel):
            found += _fields(inner, (*above, name), _notes(inner))
            continue
        default = (
            field.get_default(call_default_factory=True)
            if field.default is PydanticUndefined
            else field.default
        )
        found.append(((*above, name), f"`{default!r}`", notes.get(name, "")))
    return found


def _notes(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings that stand below the fields in the source."""
    source = inspect.getsource(model)
    found = re.findall(
        r'^    (\w+): [^\n]*(?:\n        [^\n]*)*?\n    """(.*?)"""', source, re.MULTILINE | re.DOTALL
    )
    return {name: " ".join(note.split()) for name, note in found}


def _python() -> list[str]:
    import cuda_harness
    from cuda_harness.graph.result import RunResult

    lines = ["## Python", ""]
    for name in sorted(n for n in cuda_harness.__all__ if not n.startswith("__")):
        lines += _entry(name, getattr(cuda_harness, name))
    lines += ["### `RunResult`", "", _paragraph(RunResult.__doc__), ""]
    rows = []
    for name, member in vars(RunResult).items():
        if (name.startswith("_") and name != "__call__") or not (
            callable(member) or isinstance(member, property)
        ):
            continue
        text = member.fget.__doc__ if isinstance(member, property) else member.__doc__
        shown = (
            f"`result.{name}`"
            if isinstance(member, property)
            else "`result(*arrays, **scalars)`"
            if name == "__call__"
            else f"`result.{name}()`"
        )
        rows.append((shown, _paragraph(text)))
    return lines + _table(("name", "what it is"), rows)


def _entry(name: str, value: Any) -> list[str]:
    if inspect.isclass(value):
        shown = ", ".join(n for n in inspect.signature(value).parameters if not n.startswith("_"))
        return [f"### `{name}({shown})`", "", _paragraph(value.__doc__), ""]
    parameters = ", ".join(
        ("*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else "") + p.name
        for p in inspect.signature(value).parameters.values()
    )
    return [f"### `{name}({parameters})`", "", *_docstring(value.__doc__), ""]


def _docstring(text: str | None) -> list[str]:
    """Return a docstring as Markdown: its sections' entries become list items."""
    lines = []
    for line in inspect.cleandoc(text or "").splitlines():
        if re.fullmatch(r"(Args|Returns|Raises):", line):
            lines += [f"{line[:-1]}:", ""]
        elif match := re.match(r"    (\w+(?:, \w+)*): (.*)", line):
            lines.append(f"- `{match[1]}`: {match[2]}")
        else:
            lines.append(line.strip() if not line.startswith("        ") else "  " + line.strip())
    return lines


def _plugins() -> list[str]:
    from cuda_harness.tools.plugins import EXECUTORS, PROFILERS, PROVIDERS, SKILLS

    rows = [
        (f"`{PROVIDERS}`", "a function `(argument, *, role, settings)` that returns a LangChain chat model"),
        (f"`{EXECUTORS}`", "a function `(argument, *, settings, cancel)` that returns an executor"),
        (f"`{SKILLS}`", "a folder, or a function that returns one; notes in its `skills/`"),
        (
            f"`{PROFILERS}`",
            "a function `(*, profile, kernel, ir, verdict, timing)` that returns a better profile, or `None`",
        ),
    ]
    return ["## Entry points", "", *_table(("group", "object"), rows)]


def _paragraph(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").split("\n\n")[0].split())


def main() -> None:
    """Write the page."""
    FILE.write_text(reference_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
