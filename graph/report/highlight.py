"""Kernel source, JSON and differences as escaped HTML; colours come from classes in the style sheet."""

import difflib

from markupsafe import Markup

from cuda_harness.graph.report.markup import clean, el

MAX_COLOURED = 200_000
"""Longer texts are shown without colours, so that a report stays cheap."""
MAX_SHOWN = 400_000
MAX_DIFF_LINES = 600


def code(text: str, language: str) -> Markup:
    """Return `text` as a block of code with line numbers; `language` is a name that Pygments knows (cuda, json)."""
    text = clean(text)
    cut = text[:MAX_SHOWN]
    left_out = f"\n[... {len(text) - MAX_SHOWN} characters left out ...]" if len(text) > MAX_SHOWN else ""
    body = _coloured(cut, language) if len(cut) <= MAX_COLOURED else el("span", cut)
    lines = body.rstrip("\n").split("\n")
    numbered = [el("span", Markup(line), "\n", class_="l") for line in lines]  # noqa: S704 - Pygments escaped it
    return el("pre", el("code", numbered, left_out), class_="code", tabindex="0")


def _coloured(text: str, language: str) -> Markup:
    """Return the tokens as spans; Pygments escapes the text of each (`HtmlFormatter` escapes `& < > " '`)."""
    try:
        from pygments import highlight
        from pygments.formatters.html import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
    except ImportError:  # it comes with rich, which promises nothing
        return el("span", text)
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    return Markup(highlight(text, lexer, HtmlFormatter(nowrap=True)))  # noqa: S704 - escaped by the formatter


def difference(old: str, new: str, *, old_name: str, new_name: str) -> Markup | None:
    """Return the unified difference of two texts with added and removed lines marked; `None` when they are equal."""
    lines = list(
        difflib.unified_diff(
            clean(old).splitlines(), clean(new).splitlines(), old_name, new_name, n=3, lineterm=""
        )
    )
    if not lines:
        return None
    hidden = len(lines) - MAX_DIFF_LINES
    shown = [el("span", line, "\n", class_=_DIFF.get(line[:1], "ctx")) for line in lines[:MAX_DIFF_LINES]]
    if hidden > 0:
        shown.append(el("span", f"[... {hidden} more lines ...]\n", class_="hunk"))
    return el("pre", el("code", shown), class_="code diff", tabindex="0")


_DIFF = {"+": "add", "-": "del", "@": "hunk"}
