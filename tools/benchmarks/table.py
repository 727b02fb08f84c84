"""The result table as Markdown and as one self-contained HTML page."""

import base64
import html
from collections.abc import Mapping, Sequence
from typing import Any

_COLUMNS = (
    ("results", "results"), ("not graded", "not_graded"), ("refused", "refused"), ("Comp %", "comp_percent"),
    ("Func %", "func_percent"), ("Func % (official data)", "func_official_percent"),
    ("clarified", "clarified"), ("Func % of clarified", "func_percent_clarified"),
    ("score, zeros", "score_mean_with_zeros"), ("score, functional", "score_mean_functional"),
    ("speed, zeros", "speed_vs_reference_mean_with_zeros"),
    ("speed, geomean", "speed_vs_reference_geomean_functional"),
    ("speed, median", "speed_vs_reference_median_functional"), ("sol, median", "sol_fraction_median_functional"),
    ("calls", "calls"), ("tokens in", "input_tokens"), ("tokens out", "output_tokens"), ("usd", "usd"),
    ("seconds", "seconds"),
)  # fmt: skip
_TASKS = (
    "id", "kind", "level", "sample", "clarified", "status", "comp", "func", "ours", "outcome", "failure_class", "median_us", "sol_fraction", "speed_vs_reference",
    "score", "calls", "seconds", "detail",
)  # fmt: skip
_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;max-width:75em;margin:2em auto;padding:0 1em;color:#1b1f24;background:#fff}"
    "table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #d0d7de;padding:.25em .6em;text-align:left;"
    "font-variant-numeric:tabular-nums}th{background:#f3f5f7}.no{color:#a40e26}.yes{color:#1a6b31}"
    "@media(prefers-color-scheme:dark){body{background:#14171a;color:#d7dce1}th{background:#22272c}td,th{border-color:#3a4148}"
    ".no{color:#ff8a8a}.yes{color:#7fd49a}}"
)


def shown(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a value as a cell: unknown is said, numbers are short."""
    if value is None:
        return "not measured"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)


def _percent(value: float | None) -> str:
    return "not measured" if value is None else f"{shown(value)} %"


def summary_rows(summary: Mapping[str, Any]) -> list[list[str]]:
    """Return the table of figures: a head, one row a level, and the whole."""
    rows = [["level", *(head for head, _ in _COLUMNS)]]
    for name, figures in [*summary["levels"].items(), ("all", summary["overall"])]:
        rows.append([name, *(shown(figures[key]) for _, key in _COLUMNS)])
    return rows


def verdict_rows(table: Mapping[str, Any]) -> list[list[str]]:
    """Return our verdict against the benchmark's."""
    rows = [["our verdict", "benchmark: correct", "benchmark: wrong"]]
    for name in ("accepted", "rejected", "undecided"):
        rows.append([name, str(table[f"{name}_correct"]), str(table[f"{name}_wrong"])])
    return rows


def dispute_rows(table: Mapping[str, Any]) -> list[list[str]]:
    """Return where our verdict and the benchmark's differ, with what is known of its judge; a head alone: nowhere."""
    rows = [
        ["id", "kind", "level", "our verdict", "benchmark", "our tolerance", "faults of the judge", "detail"]
    ]
    for r in table["disputed"]:
        said = "correct" if r["func"] else "wrong"
        ours = {True: "within", False: "beyond", None: "not measured"}[r.get("ours")]
        faults = "; ".join(r.get("judge") or ()) or "none found"
        why = r.get("failure_class") or ""
        rows.append([str(r["id"]), r.get("kind", ""), str(r["level"]), f"{r['outcome']} {why}".strip(), said, ours, faults, r["detail"]])  # fmt: skip
    return rows


def task_rows(results: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return one row a result."""
    return [
        list(_TASKS),
        *([shown(r.get(key)) if r.get(key) is not None else "" for key in _TASKS] for r in results),
    ]


def facts(document: Mapping[str, Any]) -> list[str]:
    """Return what stands above the tables: which suite, model, executor, grader, time."""
    table = document["verdicts"]
    lines = [
        f"suite {document['suite']}, levels {', '.join(document['levels'])}, model {document['model']}, "
        f"executor {document['executor']}" + (f", target {document['target']}" if document["target"] else ""),
        f"graded by: {', '.join(f'{name} ({n})' for name, n in document['graded_by'].items()) or 'nothing'}",
        f"our verdict agrees with the benchmark's, of the decided: {_percent(table['agreement_percent'])} (where its judge "
        f"has no fault known: {_percent(table['agreement_percent_of_sound_judges'])}); wrong among accepted: "
        f"{_percent(table['false_acceptances_percent_of_accepted'])}, rejected among correct: "
        f"{_percent(table['false_rejections_percent_of_correct'])}",
    ]
    for weak in document.get("weak_judges", ()):
        lines.append(
            f"the task {weak['kind']} (id {weak['id']}) has a weak judge: {'; '.join(weak['faults'])}"
        )
    return lines + [f"note: {note}" for note in document.get("notes", ())]


def markdown(document: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> str:
    """Return the page as Markdown."""
    parts = [f"# {one_line(document['title'])}\n", *(f"- {one_line(line)}" for line in facts(document)), ""]
    parts += ["## Figures\n", as_markdown(summary_rows(document)), "## Our verdict and the benchmark's\n"]
    parts.append(as_markdown(verdict_rows(document["verdicts"])))
    if len(disputes := dispute_rows(document["verdicts"])) > 1:
        parts += ["## Where they differ\n", as_markdown(disputes)]
    parts += ["## Results\n", as_markdown(task_rows(results))]
    return "\n".join(parts)


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first of them the head, as a Markdown table."""
    lines = ["| " + " | ".join(one_line(c) for c in row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines) + "\n"


def one_line(text: str) -> str:
    """Return foreign text as part of a Markdown line."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return clean.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "'")[:300]


def page(
    document: Mapping[str, Any],
    results: Sequence[Mapping[str, Any]],
    plots: Mapping[str, bytes] | None = None,
) -> str:
    """Return the page as HTML: no script, nothing from elsewhere, every text escaped."""
    body = [f"<h1>{html.escape(str(document['title']))}</h1><ul>"]
    body += [f"<li>{html.escape(line)}</li>" for line in facts(document)]
    body += ["</ul><h2>Figures</h2>", as_html(summary_rows(document))]
    body += [figure(name, data) for name, data in (plots or {}).items()]
    body += ["<h2>Our verdict and the benchmark's</h2>", as_html(verdict_rows(document["verdicts"]))]
    if len(disputes := dispute_rows(document["verdicts"])) > 1:
        body += ["<h2>Where they differ</h2>", as_html(disputes)]
    body += ["<h2>Results</h2>", as_html(task_rows(results))]
    return html_page(str(document["title"]), body)


def html_page(title: str, body: Sequence[str]) -> str:
    """Return a page of finished parts: no script, nothing from elsewhere."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def figure(name: str, data: bytes) -> str:
    """Return a PNG image as part of a page."""
    image = base64.b64encode(data).decode()
    caption = html.escape(name)
    return f'<figure><img alt="{caption}" src="data:image/png;base64,{image}"><figcaption>{caption}</figcaption></figure>'


def as_html(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first of them the head, as an HTML table; every text is escaped."""

    def cell(text: str, tag: str) -> str:
        kind = f' class="{text}"' if text in {"yes", "no"} else ""
        return f"<{tag}{kind}>{html.escape(text[:600])}</{tag}>"

    head, *rest = rows
    lines = ["<tr>" + "".join(cell(c, "th") for c in head) + "</tr>"]
    lines += ["<tr>" + "".join(cell(c, "td") for c in row) + "</tr>" for row in rest]
    return f"<table>{''.join(lines)}</table>"
