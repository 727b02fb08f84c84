"""The result table as Markdown and as one self-contained HTML page."""

import base64
import html
import io
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
        f"executor {document['executor']}, target {document['target']}",
        f"graded by: {', '.join(f'{name} ({n})' for name, n in document['graded_by'].items()) or 'nothing'}",
        f"our verdict agrees with the benchmark's in {shown(table['agreement_percent'])} % of the decided "
        f"({shown(table['agreement_percent_of_sound_judges'])} % where its judge has no fault known); wrong among "
        f"accepted {shown(table['false_acceptances_percent_of_accepted'])} %, rejected among correct "
        f"{shown(table['false_rejections_percent_of_correct'])} %",
    ]
    for weak in document.get("weak_judges", ()):
        lines.append(
            f"the task {weak['kind']} (id {weak['id']}) has a weak judge: {'; '.join(weak['faults'])}"
        )
    return lines + [f"note: {note}" for note in document.get("notes", ())]


def markdown(document: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> str:
    """Return the page as Markdown."""
    parts = [f"# {_cell(document['title'])}\n", *(f"- {_cell(line)}" for line in facts(document)), ""]
    parts += ["## Figures\n", _md(summary_rows(document)), "## Our verdict and the benchmark's\n"]
    parts.append(_md(verdict_rows(document["verdicts"])))
    if len(disputes := dispute_rows(document["verdicts"])) > 1:
        parts += ["## Where they differ\n", _md(disputes)]
    parts += ["## Results\n", _md(task_rows(results))]
    return "\n".join(parts)


def _md(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(_cell(c) for c in row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    clean = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return clean.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "'")[:300]


def page(
    document: Mapping[str, Any],
    results: Sequence[Mapping[str, Any]],
    plots: Mapping[str, bytes] | None = None,
) -> str:
    """Return the page as HTML: no script, nothing from elsewhere, every text escaped."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    body = [f"<h1>{html.escape(str(document['title']))}</h1><ul>"]
    body += [f"<li>{html.escape(line)}</li>" for line in facts(document)]
    body += ["</ul><h2>Figures</h2>", _html(summary_rows(document))]
    for name, data in (plots or {}).items():
        image = base64.b64encode(data).decode()
        body.append(
            f'<figure><img alt="{html.escape(name)}" src="data:image/png;base64,{image}"><figcaption>'
            f"{html.escape(name)}</figcaption></figure>"
        )
    body += ["<h2>Our verdict and the benchmark's</h2>", _html(verdict_rows(document["verdicts"]))]
    if len(disputes := dispute_rows(document["verdicts"])) > 1:
        body += ["<h2>Where they differ</h2>", _html(disputes)]
    body += ["<h2>Results</h2>", _html(task_rows(results))]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(str(document['title']))}</title><style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _html(rows: Sequence[Sequence[str]]) -> str:
    def cell(text: str, tag: str) -> str:
        kind = f' class="{text}"' if text in {"yes", "no"} else ""
        return f"<{tag}{kind}>{html.escape(text[:600])}</{tag}>"

    head, *rest = rows
    lines = ["<tr>" + "".join(cell(c, "th") for c in head) + "</tr>"]
    lines += ["<tr>" + "".join(cell(c, "td") for c in row) + "</tr>" for row in rest]
    return f"<table>{''.join(lines)}</table>"


def plots(summary: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    """Return PNG images by caption: Func by level, speeds, cost; empty where matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return {}
    found = {}

    def drawn(caption: str, draw: Any) -> None:  # noqa: ANN401 - takes an Axes
        figure = Figure(figsize=(6, 3.2), dpi=110, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.subplots())
        data = io.BytesIO()
        figure.savefig(data, format="png")
        found[caption] = data.getvalue()

    levels = summary["levels"]

    def by_level(axes: Any) -> None:  # noqa: ANN401 - an Axes
        axes.bar(list(levels), [f["func_percent"] or 0 for f in levels.values()])
        axes.set(xlabel="level", ylabel="Func, %", ylim=(0, 100))

    drawn("Func by level", by_level)
    speeds = [r["speed_vs_reference"] for r in results if r["func"] and r["speed_vs_reference"] is not None]
    if speeds:

        def spread(axes: Any) -> None:  # noqa: ANN401 - an Axes
            axes.hist(speeds, bins=30)
            axes.axvline(1.0, linestyle="--", color="gray")
            axes.set(xlabel="speed against bench.cu", ylabel="programs")

        drawn("Speed against bench.cu, functional programs", spread)
    costs = [r["output_tokens"] for r in results if r["output_tokens"] is not None]
    if any(costs):

        def cost(axes: Any) -> None:  # noqa: ANN401 - an Axes
            axes.hist(costs, bins=30)
            axes.set(xlabel="output tokens", ylabel="results")

        drawn("Cost", cost)
    return found
