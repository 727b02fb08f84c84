"""HTML and SVG elements built from values: every text is escaped, so nothing in a run can become markup."""

from markupsafe import Markup, escape

Child = object
"""A text or number (escaped), a Markup (kept), an iterable of them, or None and False (left out)."""
_VOID = frozenset({"meta", "br", "line", "rect", "circle", "path", "polygon"})


def el(name: str, /, *children: Child, **attributes: object) -> Markup:
    """Return one element; a trailing `_` of an attribute is dropped and inner `_` become `-` (`class_`, `stroke_width`).

    An attribute that is `None` or `False` is left out, one that is `True` stands without a value.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        written = key.rstrip("_").replace("_", "-") if key not in _KEEP else _KEEP[key]
        parts.append(f" {written}" if value is True else f' {written}="{escape(_number(value))}"')
    if name in _VOID and not children:
        return Markup("".join(parts) + "/>")  # noqa: S704 - names are ours, values are escaped above
    return Markup("".join(parts) + ">") + join(*children) + Markup(f"</{name}>")  # noqa: S704 - names are ours


_KEEP = {"viewBox": "viewBox", "preserveAspectRatio": "preserveAspectRatio"}


def join(*children: Child) -> Markup:
    """Return all children one after another, texts escaped."""
    found = Markup()
    for child in children:
        if child is None or child is False:
            continue
        if isinstance(child, (list, tuple)):
            found += join(*child)
        else:
            found += escape(
                clean(child) if isinstance(child, str) and not isinstance(child, Markup) else child
            )
    return found


def clean(text: str) -> str:
    """Return `text` without characters that HTML does not allow (controls, half surrogates)."""
    return "".join(c if c in "\n\t" or c.isprintable() or c == "\u00a0" else "\ufffd" for c in text)


def _number(value: object) -> object:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def table(
    head: tuple[str, ...], rows: list[tuple[Child, ...]], *, numeric: tuple[int, ...] = ()
) -> Markup | None:
    """Return a table that scrolls on a narrow screen, `None` without rows; `numeric` columns stand right."""
    if not rows:
        return None
    align = dict.fromkeys(numeric, "num")
    return el(
        "div",
        el(
            "table",
            el(
                "thead", el("tr", [el("th", h, scope="col", class_=align.get(i)) for i, h in enumerate(head)])
            ),
            el(
                "tbody", [el("tr", [el("td", c, class_=align.get(i)) for i, c in enumerate(r)]) for r in rows]
            ),
        ),
        class_="scroll",
    )


def facts(pairs: list[tuple[str, Child]]) -> Markup | None:
    """Return a list of names and values; values that are `None` or empty are left out."""
    kept = [(name, value) for name, value in pairs if value not in (None, "", [])]
    if not kept:
        return None
    return el("dl", [el("div", el("dt", name), el("dd", value)) for name, value in kept])


def fold(title: Child, *children: Child, open_: bool = False) -> Markup:
    """Return a block that opens on a click, without a script."""
    return el("details", el("summary", title), *children, open=open_)
