"""The report: one file that loads nothing, runs nothing, has no empty section, and shows a run's texts as text."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.finished_run import HOSTILE, finished_run

from cuda_harness.graph.report.drawing import Arrow, Bar, Box, bars, layered
from cuda_harness.graph.report.evidence import read_evidence
from cuda_harness.graph.report.figures import figure_of
from cuda_harness.graph.report.highlight import code, difference
from cuda_harness.graph.report.page import SECTIONS, fragment, page, write_report
from cuda_harness.state.errors import ConfigError


class Outline(HTMLParser):
    """Elements with their attributes, the text of each section, and whether every tag is closed."""

    VOID = frozenset({"meta", "br", "path", "rect"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.sections: dict[str, str] = {}
        self.text = ""
        self.open: list[str] = []
        self._section = ""
        self._heading = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "section":
            self._section = dict(attrs)["id"] or ""
            self.sections[self._section] = ""
        self._heading = tag == "h2" or (self._heading and tag != "section")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "h2":
            self._heading = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._section and not self._heading:
            self.sections[self._section] += data


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def html(run_dir: Path) -> str:
    return page(read_evidence(run_dir))


def test_every_section_is_there_and_says_something(html: str) -> None:
    found = Outline(html).sections
    assert list(found) == [anchor for anchor, _, _ in SECTIONS]
    assert all(len(text.strip()) > 20 for text in found.values())


def test_every_tag_is_closed(html: str) -> None:
    assert Outline(html).open == []


def test_nothing_is_loaded_and_no_script_runs(html: str) -> None:
    outline = Outline(html)
    names = {name for name, _ in outline.elements}
    assert not names & {
        "script",
        "img",
        "iframe",
        "object",
        "embed",
        "link",
        "base",
        "form",
        "video",
        "audio",
        "use",
    }
    for name, attributes in outline.elements:
        assert not [a for a in attributes if a.startswith("on")], (name, attributes)
        assert "style" not in attributes, name
        assert (attributes.get("href") or "#").startswith("#")
        assert "src" not in attributes
    policies = [
        a["content"]
        for n, a in outline.elements
        if n == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policies) == 1
    assert policies[0] is not None
    assert policies[0].startswith("default-src 'none'; style-src 'sha256-")
    css = html.split("<style>")[1].split("</style>", maxsplit=1)[0]
    assert "url(" not in css
    assert "@import" not in css


def test_markup_in_a_run_stays_text(html: str, run_dir: Path) -> None:
    for shown in (html, fragment(read_evidence(run_dir))):
        outline = Outline(shown)
        assert not [n for n, _ in outline.elements if n in {"script", "img"}]
        for place in ("</code></pre>", HOSTILE):
            assert place in outline.text


def test_the_page_tells_what_was_not_measured_and_what_changed(html: str) -> None:
    text = Outline(html).text
    assert "Not measured, so not proved: sanitizer (needs a GPU and compute-sanitizer)." in text
    assert "-  if (i < n) y[i] = x[i];" in text
    assert "+  if (i < n) y[i] = a * x[i];" in text
    assert "1 of 1 planted wrong answers rejected" in text
    assert "64.0%" in text
    assert re.search(r"floor 8 \u00b5s", text)
    assert "baseline 20 \u00b5s" in text
    assert "--seed 7" in text
    assert "30 in, 9 out" in text
    assert "1.600x (1.550 to 1.660)" in text
    assert "unknown" in Outline(html).sections["budgets"]


def test_without_a_gpu_the_reason_stands_in_place_of_a_time(tmp_path: Path) -> None:
    text = Outline(page(read_evidence(finished_run(tmp_path, timed=False)))).sections["time"]
    assert "Not measured: there is no GPU." in text
    assert "\u00b5s" not in text


def test_a_damaged_file_leaves_its_part_out(tmp_path: Path) -> None:
    run = finished_run(tmp_path)
    (run / "ir.json").write_text("{")
    (run / "attempts/001/verdict.json").write_text("[]")
    found = Outline(page(read_evidence(run))).sections
    assert "ir" not in found
    assert all(text.strip() for text in found.values())


def test_the_report_goes_where_it_is_asked_to(run_dir: Path, tmp_path: Path) -> None:
    assert write_report(run_dir) == run_dir / "report.html"
    assert write_report(run_dir, tmp_path / "there.html").read_text().startswith("<!DOCTYPE html>")


def test_a_run_that_has_not_ended_has_no_report(tmp_path: Path) -> None:
    run = finished_run(tmp_path)
    (run / "result.json").unlink()
    with pytest.raises(ConfigError, match="has not ended"):
        read_evidence(run)


def test_code_keeps_every_character_and_bounds_what_it_shows() -> None:
    source = 'a < b && c > "d"; /* x\n y */\n\n#define Z 1\n'
    shown = Outline(str(code(source, "cuda")))
    assert shown.text.rstrip("\n") == source.rstrip("\n")
    assert len(code("x" * 3_000_000, "cuda")) < 500_000


def test_equal_texts_have_no_difference() -> None:
    assert difference("a", "a", old_name="1", new_name="2") is None


def test_a_cycle_or_an_unknown_end_never_breaks_a_drawing() -> None:
    drawn = layered(
        [Box("a", ("a",)), Box("b", ("b" * 90,))],
        [Arrow("a", "b"), Arrow("b", "a"), Arrow("a", "z")],
        title="t",
    )
    assert drawn.count('class="edge"') == 1
    assert layered([], [], title="empty")


def test_a_chart_without_a_value_is_not_drawn() -> None:
    assert bars([Bar("a", None)], unit="s", title="t") is None
    assert "not measured" in str(bars([Bar("a", None), Bar("b", 2.0)], unit="s", title="t"))


def test_figures_show_the_ladder_and_the_times_of_each_attempt(run_dir: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    (axes,) = figure_of(read_evidence(run_dir), "ladder").axes

    assert [t.get_text() for t in axes.get_yticklabels()] == ["#1 first", "#2 repair", "#3 vectorise"]
    assert max(p.get_x() + p.get_width() for p in axes.patches) == pytest.approx(9 * 0.25)
    assert figure_of(read_evidence(run_dir), "time").axes[0].get_xlabel() == "attempt"


def test_without_matplotlib_the_remedy_is_named(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match="matplotlib") as caught:
        figure_of(read_evidence(run_dir), "ladder")
    assert "[plots]" in caught.value.remedy


@pytest.mark.parametrize(
    ("kind", "says"), [("time", "was timed"), ("roofline", "was timed"), ("pie", "unknown figure")]
)
def test_what_was_not_measured_is_said_not_drawn(tmp_path: Path, kind: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        figure_of(read_evidence(finished_run(tmp_path, timed=False)), kind)


@pytest.mark.parametrize(
    "wrong", [None, 7, "text", [1, "a"], {"a": [1]}, [{"id": "x"}, {"id": -1}, {"id": 10**9}]]
)
def test_a_result_of_wrong_kinds_is_shown_as_far_as_it_goes(tmp_path: Path, wrong: Any) -> None:
    run = finished_run(tmp_path)
    for name in ("result.json", "manifest.json"):
        whole = json.loads((run / name).read_text())
        for field in whole:
            if field != "schema":
                (run / name).write_text(json.dumps({**whole, field: wrong}))
                found = Outline(page(read_evidence(run))).sections
                assert all(text.strip() for text in found.values()), field
        (run / name).write_text(json.dumps(whole))


def test_a_run_that_waits_shows_its_question(tmp_path: Path) -> None:
    run = finished_run(tmp_path)
    document = json.loads((run / "result.json").read_text())
    (run / "result.json").unlink()
    reading = {"value": "0", "consequence": "empty arrays work"}
    asked = {"what": f"smallest size {HOSTILE}", "value": "1", "why": "not stated", "readings": [reading]}
    document.update(
        status="question", attempts=[], verdict=None, kernel=None, timing=None, stop={"reason": "question"},
        question={"understood": "a scaled vector", "assumptions": [asked]},
    )  # fmt: skip

    shown = Outline(fragment(read_evidence(run, result=document)))

    for words in (
        "waits for an answer",
        "a scaled vector",
        "0: empty arrays work",
        "--answer 'WHAT=VALUE'",
        HOSTILE,
    ):
        assert words in shown.text
    assert not [n for n, _ in shown.elements if n == "script"]


def test_a_long_arrow_passes_beside_the_boxes_between() -> None:
    boxes = [Box(name, (name * 20, "x")) for name in "abc"]
    drawn = str(layered(boxes, [Arrow("a", "b"), Arrow("b", "c"), Arrow("a", "c")], title="t"))
    paths = re.findall(r'<path d="(M[^"]*)" class="edge"', drawn)
    long = max(paths, key=len)
    assert len(paths) == 3
    assert long.count("C") == 3
    x, width = (float(v) for v in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)[1])
    bend = float(re.findall(r"C[\d.]+ [\d.]+ [\d.]+ [\d.]+ ([\d.]+)", long)[0])
    assert not x <= bend <= x + width


def test_a_node_that_holds_nodes_is_not_counted_beside_them(tmp_path: Path) -> None:
    run = finished_run(tmp_path)
    times = {"start_time": "2026-01-01T00:00:00+00:00", "end_time": "2026-01-01T00:00:04+00:00"}
    branch = {
        "id": "z",
        "name": "branch",
        "extra": {"metadata": {"langgraph_node": "branch"}},
        "dotted_order": "0",
        **times,
    }
    lines = [json.loads(line) for line in (run / "trace.jsonl").read_text().splitlines()]
    lines[0]["parent_run_id"] = "z"
    (run / "trace.jsonl").write_text("".join(json.dumps(r) + "\n" for r in [branch, *lines]))

    spent = Outline(page(read_evidence(run))).sections["spent"]

    assert "coder" in spent
    assert "4 s" not in spent
