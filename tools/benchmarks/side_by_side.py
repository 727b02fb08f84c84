"""Two result folders side by side, paired by task, level and sample: as a document, as lines, and as pages."""

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuda_harness.state.errors import ConfigError
from cuda_harness.tools.archive.run_folder import write_atomically
from cuda_harness.tools.benchmarks.figures import compare
from cuda_harness.tools.benchmarks.plots import paired_plots
from cuda_harness.tools.benchmarks.results import read_rows, title_of
from cuda_harness.tools.benchmarks.table import as_html, as_markdown, figure, html_page, one_line, shown

KIND = "cuda-harness/bench-compare/1"
_FIGURES = (
    ("results", "results"), ("Comp %", "comp_percent"), ("Func %", "func_percent"),
    ("Func % (official data)", "func_official_percent"), ("score, zeros", "score_mean_with_zeros"),
    ("speed, zeros", "speed_vs_reference_mean_with_zeros"), ("speed, geomean", "speed_vs_reference_geomean_functional"),
    ("speed, median", "speed_vs_reference_median_functional"), ("sol, median", "sol_fraction_median_functional"),
    ("calls", "calls"), ("tokens in", "input_tokens"), ("tokens out", "output_tokens"), ("usd", "usd"), ("seconds", "seconds"),
)  # fmt: skip


def side_by_side(a: Path, b: Path) -> dict[str, Any]:
    """Return two result folders paired.

    Raises:
        ConfigError: If one holds no results, or they share none; the user acts.
    """
    found = compare(read_rows(a), read_rows(b))
    if not found["paired"]:
        msg = f"{str(a)!r} and {str(b)!r} have no task, level and sample in common"
        raise ConfigError(msg, remedy="compare runs of the same suite")
    return {"schema": KIND, "a_title": title_of(a), "b_title": title_of(b), **found}


def facts(document: Mapping[str, Any]) -> list[str]:
    """Return what the pairs say, a line each."""
    p = document["sign_test_p"]
    return [
        f"A: {document['a_title']}; B: {document['b_title']}",
        f"{document['paired']} pairs (only in A: {document['only_in_a']}, only in B: {document['only_in_b']})",
        f"functional in both {document['both_functional']}, only in A {document['only_a_functional']}, only in B "
        f"{document['only_b_functional']}, in neither {document['neither_functional']}; "
        + ("no difference" if p is None else f"sign test p = {shown(p)}"),
        f"speed of B over A where both are functional: geomean {shown(document['speed_b_over_a_geomean'])} over "
        f"{document['timed_in_both']}",
    ]


def figure_rows(document: Mapping[str, Any]) -> list[list[str]]:
    """Return the table: a figure a row; A and B of each level, and of all."""
    groups = [(f"level {n}", pair) for n, pair in document["levels"].items()] + [("all", document)]
    rows = [["figure", *(f"{name}, {side}" for name, _ in groups for side in "AB")]]
    for head, key in _FIGURES:
        rows.append([head, *(shown(pair[side][key]) for _, pair in groups for side in "ab")])
    return rows


def changed_rows(document: Mapping[str, Any]) -> list[list[str]]:
    """Return the tasks that one of the two solved alone; a head alone: there is none."""
    rows = [["id", "kind", "level", "sample", "A functional", "B functional"]]
    for c in document["changed"]:
        rows.append(
            [str(c["id"]), str(c["kind"]), str(c["level"]), str(c["sample"]), shown(c["a"]), shown(c["b"])]
        )
    return rows


def write(document: Mapping[str, Any], out: Path) -> None:
    """Write compare.json, compare.md and compare.html into a folder."""
    tables = [("Figures", figure_rows(document)), ("Solved by one alone", changed_rows(document))]
    title = f"{document['a_title']} (A) and {document['b_title']} (B)"
    plain = [f"# {one_line(title)}\n", *(f"- {one_line(line)}" for line in facts(document)), ""]
    body = [
        f"<h1>{html.escape(title)}</h1><ul>",
        *(f"<li>{html.escape(f)}</li>" for f in facts(document)),
        "</ul>",
    ]
    body += [figure(name, data) for name, data in paired_plots(document).items()]
    for name, rows in tables:
        plain += [f"## {name}\n", as_markdown(rows)]
        body += [f"<h2>{name}</h2>", as_html(rows)]
    write_atomically(out / "compare.json", (json.dumps(dict(document), indent=1) + "\n").encode())
    write_atomically(out / "compare.md", "\n".join(plain).encode())
    write_atomically(out / "compare.html", html_page(title, body).encode())
