"""Prompts from Markdown templates; every value stays data and is never read as a template.

A role's template begins with `{# role: NAME; version: N; output: ... #}` and has two blocks, `system` and
`human`. Its sections stand in a fixed order: role, task, facts (system), evidence, what to do, output form
(human). Evidence is fenced by `fenced`, so no text inside can end its fence.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined, Template, TemplateError, TemplateNotFound, Undefined
from jinja2.sandbox import SandboxedEnvironment

HERE = Path(__file__).resolve().parent
_HEADER = re.compile(r"\{#\s*role:\s*(?P<role>[a-z]+);\s*version:\s*(?P<version>\d+)\s*(?:;[^#]*)?#\}")
_WIDTH = 110


class PromptError(ValueError):
    """A template is missing or broken, or a value it names was not given."""


@dataclass(frozen=True)
class Prompt:
    """The two messages of one question to a model."""

    name: str
    """Template, for example `roles/planner`."""
    role: str
    version: int
    system: str
    """Begins with the line `<!-- role: ROLE; version: N -->`."""
    human: str


@dataclass(frozen=True)
class Skill:
    """One technique as the Coder is told it."""

    name: str
    source: str
    """Title of the paper or guide that describes it."""
    example: str
    """A bundle of `examples/kernels` that shows it."""
    applies_to: tuple[str, ...]
    """Kinds of problems and kernels, as `tools.evolve.traits` names them."""
    text: str
    """The note, without its front matter."""


_SKILL = re.compile(r"---\n(?P<head>.*?)\n---\n(?P<text>.*)", re.DOTALL)


def _read_skill(path: Path) -> Skill:
    try:
        match = _SKILL.fullmatch(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        msg = f"skill {path.stem!r} cannot be read: {exc}"
        raise PromptError(msg) from exc
    if match is None:
        msg = f"skill {path.stem!r} must begin with front matter between two lines of three dashes"
        raise PromptError(msg)
    head = dict(re.findall(r"(?m)^(\w+):[ \t]*(.*?)[ \t]*$", match["head"]))
    missing = sorted({"name", "source", "example", "applies_to"} - set(head))
    if missing or head["name"] != path.stem:
        msg = f"skill {path.stem!r} lacks {', '.join(missing) or 'its own name'} in its front matter"
        raise PromptError(msg)
    kinds = tuple(kind.strip() for kind in head["applies_to"].split(","))
    return Skill(head["name"], head["source"], head["example"], kinds, match["text"].strip())


def fenced(text: object, language: str = "text") -> str:
    """Return `text` in a Markdown fence longer than any run of backticks inside."""
    body = str(text).encode("utf-8", "replace").decode().strip("\n")
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def compact_json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return `value` as JSON in which whatever fits on one line stands on one line."""
    if isinstance(value, Undefined):
        str(value)  # raises with the name of what was not given
    return _lay_out(value, indent=0, used=0)


def _lay_out(value: Any, *, indent: int, used: int) -> str:  # noqa: ANN401 - any JSON value
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list, tuple)) or not value or used + len(flat) <= _WIDTH:
        return flat
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        rows = []
        for key, item in value.items():
            head = f"{pad}{json.dumps(str(key), ensure_ascii=False)}: "
            rows.append(head + _lay_out(item, indent=indent + 1, used=len(head)))
        opening, closing = "{", "}"
    else:
        rows = [pad + _lay_out(item, indent=indent + 1, used=len(pad)) for item in value]
        opening, closing = "[", "]"
    return f"{opening}\n" + ",\n".join(rows) + f"\n{' ' * indent}{closing}"


class Prompts:
    """The built-in templates, or the files of a folder that override them one by one; `more` folders add skills."""

    def __init__(self, override: str | Path | None = None, *, more: Sequence[Path] = ()) -> None:
        folders = [*([Path(override)] if override is not None else []), HERE]
        self._folders = [*folders[:-1], *more, HERE]
        # Autoescape is off because the output is Markdown for a model, not HTML.
        self._environment = SandboxedEnvironment(
            loader=FileSystemLoader(folders), undefined=StrictUndefined, autoescape=False,
            trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        )  # fmt: skip
        self._environment.filters.update(fenced=fenced, json=compact_json)

    def render(self, name: str, **values: Any) -> Prompt:  # noqa: ANN401 - templates take any value
        """Return the prompt of a role's template, for example `roles/coder`.

        Raises:
            PromptError: If the template is missing or broken, or one of its values was not given.
        """
        template = self._template(f"{name}.md.j2")
        role, version = self._header(f"{name}.md.j2")
        system, human = (self._block(template, block, values) for block in ("system", "human"))
        return Prompt(
            name=name, role=role, version=version, human=human,
            system=f"<!-- role: {role}; version: {version} -->\n{system}",
        )  # fmt: skip

    def text(self, name: str, **values: Any) -> str:  # noqa: ANN401 - templates take any value
        """Return a fragment, for example `fragments/unusable`, with its values; raises PromptError."""
        try:
            return self._template(f"{name}.md.j2").render(values).strip() + "\n"
        except TemplateError as exc:
            msg = f"prompt fragment {name!r} cannot be rendered: {exc}"
            raise PromptError(msg) from exc

    def skill(self, name: str) -> "Skill":
        """Return a skill note, for example `vector_loads`; raises PromptError.

        Notes are no templates: they may hold braces.
        """
        for folder in self._folders:
            path = folder / "skills" / f"{name}.md"
            if path.is_file():
                return _read_skill(path)
        msg = f"there is no skill {name!r}"
        raise PromptError(msg)

    def skills(self) -> list[str]:
        """Return the names of all skills, sorted."""
        return sorted({p.stem for folder in self._folders for p in (folder / "skills").glob("*.md")})

    def has(self, name: str) -> bool:
        """Return whether a template of this name exists."""
        return f"{name}.md.j2" in self._environment.list_templates(extensions=["j2"])

    def _template(self, file: str) -> Template:
        try:
            return self._environment.get_template(file)
        except TemplateNotFound as exc:
            msg = f"there is no prompt template {file!r}"
            raise PromptError(msg) from exc
        except (TemplateError, OSError, UnicodeDecodeError) as exc:
            msg = f"prompt template {file!r} is broken: {exc}"
            raise PromptError(msg) from exc

    def _header(self, file: str) -> tuple[str, int]:
        loader = self._environment.loader
        source = loader.get_source(self._environment, file)[0] if loader is not None else ""
        match = _HEADER.match(source)
        if match is None:
            msg = f"prompt template {file!r} must begin with {{# role: NAME; version: N #}}"
            raise PromptError(msg)
        return match["role"], int(match["version"])

    @staticmethod
    def _block(template: Template, block: str, values: dict[str, Any]) -> str:
        if block not in template.blocks:
            msg = f"prompt template {template.name!r} has no block {block!r}"
            raise PromptError(msg)
        try:
            return "".join(template.blocks[block](template.new_context(values))).strip() + "\n"
        except Exception as exc:  # a template is the user's own program and may raise anything
            msg = f"prompt template {template.name!r} cannot be rendered: {exc}"
            raise PromptError(msg) from exc


@cache
def _built_in() -> Prompts:
    return Prompts()


def render(name: str, **values: Any) -> Prompt:  # noqa: ANN401 - templates take any value
    """Return a built-in prompt; raises PromptError."""
    return _built_in().render(name, **values)
