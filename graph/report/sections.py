"""The parts of a report; each is `None` when a run has nothing to say there, so no section is ever empty."""

import shlex
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from cuda_harness.graph.report.drawing import quantity
from cuda_harness.graph.report.evidence import Evidence
from cuda_harness.graph.report.markup import el, facts, fold, join, table
from cuda_harness.state.budget import Budget
from cuda_harness.state.results import Failure, StageResult, Verdict

STATUS = {
    "verified": ("verified", "good"),
    "unverified": ("not verified", "warn"),
    "failed": ("no kernel", "bad"),
    "question": ("waits for an answer", "warn"),
}
_MARKS = {"passed": ("\u2713", "good"), "failed": ("\u2717", "bad"), "not_measured": ("\u2013", "mute")}
_WORDS = {"passed": "passed", "failed": "failed", "not_measured": "not measured"}


def headline(run: Evidence) -> Markup:
    """Return the status, the request's first line and the figures that matter most."""
    words, tone = STATUS.get(str(run.result.get("status")), (str(run.result.get("status")), "mute"))
    stop = run.result.get("stop") or {}
    reason = str(stop.get("reason") or "").replace("_", " ")
    request = str(run.result.get("request") or "").strip()
    first = request.splitlines()[0] if request else "no request"
    timing = run.timing
    usage = run.result.get("usage") or {}
    tiles = [
        ("time", f"{quantity(timing.median_us)} \u00b5s" if timing else "not measured"),
        ("of the speed of light", f"{timing.sol_fraction:.0%}" if timing and timing.sol_fraction else None),
        (
            "against the baseline",
            f"{timing.speedup_vs_baseline:.2f}x" if timing and timing.speedup_vs_baseline else None,
        ),
        ("judged on", run.verdict.executor if run.verdict else run.result.get("executor")),
        ("compiled for", run.result.get("target")),
        ("attempts", len(run.attempts)),
        ("model calls", usage.get("calls")),
        ("seconds", f"{usage['seconds']:.1f}" if isinstance(usage.get("seconds"), (int, float)) else None),
    ]
    return join(
        el(
            "div",
            el("span", words, class_=f"badge {tone}"),
            el("span", f"ended: {reason}", class_="soft") if reason and reason != words else None,
            class_="status",
        ),
        el("p", first if len(first) <= 300 else first[:299] + "\u2026", class_="request"),
        el("div", [_tile(name, value) for name, value in tiles if value not in (None, "")], class_="tiles"),
        el("p", stop.get("detail"), class_="soft wrap")
        if stop.get("detail") and reason != "verified"
        else None,
    )


def _tile(name: str, value: object) -> Markup:
    return el("div", el("b", value), el("span", name), class_="tile")


def question(run: Evidence) -> Markup | None:
    """Return what the run asks, each assumption with its readings, and how to answer."""
    asked = run.result.get("question")
    if not isinstance(asked, Mapping):
        return None
    rows = []
    for assumption in asked.get("assumptions") or []:
        readings = [
            f"{r.get('value')}: {r.get('consequence') or ''}" for r in assumption.get("readings") or []
        ]
        rows.append((str(assumption.get("what")), str(assumption.get("value")), str(assumption.get("why") or ""), el("ul", [el("li", r) for r in readings])
                     if readings else "any"))  # fmt: skip
    again = f"cuda-harness resume {shlex.quote(str(run.folder.root))} --answer 'WHAT=VALUE'"
    return join(
        el("p", "Understood: ", str(asked.get("understood") or "")),
        table(("about", "assumed", "because", "or"), list(rows)),
        el("p", "Answer what is otherwise, the rest is taken as assumed: ", el("code", again)),
    )


def request(run: Evidence) -> Markup | None:
    """Return the request in full and every choice that it left open."""
    text = str(run.result.get("request") or "")
    rows = [
        (str(a.get("what") or ""), str(a.get("value") or ""), str(a.get("why") or ""))
        for a in run.result.get("assumptions") or []
        if isinstance(a, Mapping)
    ]
    if not text and not rows:
        return None
    assumed = table(("assumed", "as", "because"), list(rows))
    return join(
        el("blockquote", text, class_="wrap") if text else None,
        assumed or el("p", "No assumption was needed.", class_="soft"),
    )


def verdict(run: Evidence) -> Markup | None:
    """Return the ladder rung by rung, what was not measured and why, the failure, and what judged the judge."""
    if run.verdict is None:
        return None
    found = run.verdict
    missing = [s for s in found.stages if s.status == "not_measured"]
    return join(
        el("p", el("b", found.outcome), f" on {found.executor}", f" for {found.target}" if found.target else "",
           f", for these sizes only: {_sizes(found.verified_for)}" if found.verified_for else ""),
        ladder(found),
        failure(found.failure) if found.failure else None,
        el("p", "Not measured, so not proved: ", _listed([f"{s.name} ({s.detail})" if s.detail else s.name for s in missing]))
        if missing else None,
        el("ul", [el("li", w) for w in found.warnings]) if found.warnings else None,
        _judge(run),
    )  # fmt: skip


def ladder(found: Verdict) -> Markup:
    """Return the stages as a list with marks, words for those who see no colours, and seconds."""
    return el("ol", [_rung(s) for s in found.stages], class_="ladder")


def _rung(stage: StageResult) -> Markup:
    mark, tone = _MARKS[stage.status]
    scaled = f"at a reduced size: {_sizes(stage.scaled)}" if stage.scaled else ""
    covered = _covered(stage.covered)
    return el(
        "li",
        el("span", mark, class_=f"mark {tone}", aria_hidden="true"),
        el("span", stage.name, class_="name"),
        el("span", _WORDS[stage.status], class_=f"soft {tone}"),
        el("span", f"{stage.seconds:.2f} s", class_="num soft") if stage.status != "not_measured" else None,
        el("span", ". ".join(t for t in (stage.detail, scaled) if t), class_="detail wrap"),
        fold("what was exercised", covered) if covered else None,
    )


def _covered(covered: Mapping[str, Any]) -> Markup | None:
    pairs: list[tuple[str, object]] = []
    for name, value in covered.items():
        if name == "dims" and isinstance(value, list):
            pairs.append(("sizes", "; ".join(_sizes(v) for v in value if isinstance(v, Mapping))))
        elif isinstance(value, (list, tuple)):
            pairs.append((name, ", ".join(map(str, value))))
        else:
            pairs.append((name.replace("_", " "), str(value)))
    return facts(pairs)


def failure(found: Failure) -> Markup:
    """Return class, message and evidence of a failure."""
    evidence = facts([(k.replace("_", " "), _plain(v)) for k, v in found.evidence.items()])
    who = "the kernel's" if found.is_candidates else "not the kernel's"
    return el(
        "div",
        el("p", el("b", found.class_.replace("_", " ")), f" at {found.stage} ({who} fault)"),
        el("pre", found.message, class_="wrap"),
        fold("evidence", evidence) if evidence else None,
        class_="failure",
    )


def _judge(run: Evidence) -> Markup | None:
    proof = run.proof
    if proof is None:
        return None
    caught = sum(p.rejected for p in proof.plants)
    names = [f"{p.name}{'' if p.rejected else ' (not rejected)'}" for p in proof.plants]
    honest = [name for name, accepted in proof.honest.items() if accepted]
    skipped = [f"{name}: {why}" for name, why in proof.skipped.items()]
    return fold(
        f"The judge was judged first: {caught} of {len(proof.plants)} planted wrong answers rejected, "
        f"{len(honest)} of {len(proof.honest)} honest ones accepted",
        facts(
            [
                ("rejected", ", ".join(names)),
                ("accepted", ", ".join(honest)),
                ("left out", "; ".join(skipped)),
            ]
        ),
    )


def budgets(run: Evidence) -> Markup | None:
    """Return what was spent beside what was allowed; unknown is said, not counted as zero."""
    usage = run.result.get("usage") or {}
    if not usage:
        return None
    found = (run.manifest.get("settings") or {}).get("budget")
    limits = found if isinstance(found, Mapping) else {}
    tokens = (usage.get("input_tokens"), usage.get("output_tokens"))
    total = None if None in tokens else sum(t for t in tokens if t is not None)
    rows = [
        ("model calls", _known(usage.get("calls")), _limit(limits, "max_calls")),
        ("tokens", _known(total), _limit(limits, "max_tokens")),
        ("US dollars", _known(usage.get("usd")), _limit(limits, "max_usd")),
        ("seconds", _known(usage.get("seconds")), _limit(limits, "max_seconds")),
        ("GPU seconds", _known(usage.get("gpu_seconds")), _limit(limits, "max_gpu_seconds")),
        ("attempts", str(len(run.attempts)), str(_most_attempts(limits))),
    ]
    return table(("", "spent", "limit"), list(rows), numeric=(1, 2))


def _most_attempts(limits: Mapping[str, Any]) -> object:
    try:
        return Budget.model_validate(limits).max_attempts
    except ValueError:
        return "unknown"


def reproduce(run: Evidence) -> Markup | None:
    """Return versions, hashes and the commands that repeat what this page shows."""
    versions = [
        (name, value or "not installed") for name, value in (run.result.get("versions") or {}).items()
    ]
    settings = run.manifest.get("settings") or {}
    seed = run.manifest.get("seed")
    folder = f"{settings.get('out') or 'runs'}/{run.result.get('run_id')}"
    lines = [f"cuda-harness show {shlex.quote(folder)}"]
    if run.result.get("kernel"):
        lines.append(
            f"cuda-harness verify {shlex.quote(folder + '/best')} --executor {shlex.quote(str(run.result.get('executor') or 'auto'))}"
            f" --target {shlex.quote(str(run.result.get('target')))} --seed {seed}"
        )
    again = ["cuda-harness", "generate", f"@{folder}/request.txt", "--model", str(run.result.get("model"))]
    again += ["--executor", str(settings.get("executor") or "auto"), "--seed", str(seed)]
    lines.append(shlex.join(again))
    hashes = list((run.verdict.sha256 if run.verdict else {}).items())
    gpu = run.manifest.get("gpu")
    return join(
        el("pre", el("code", "\n".join(lines)), class_="code"),
        facts([("run", run.result.get("run_id")), ("made", run.manifest.get("created")), ("seed", seed),
               ("GPU", _plain(gpu) if gpu else _no_gpu(run)), *versions]),
        fold("SHA-256 of what was judged", facts(list(hashes))) if hashes else None,
    )  # fmt: skip


def _no_gpu(run: Evidence) -> str:
    return "none was used" if str(run.result.get("executor")).startswith("cpu") else "not recorded"


def _limit(limits: Mapping[str, Any], name: str) -> str:
    return "none" if limits.get(name) is None else str(limits[name])


def _known(value: object) -> str:
    if value is None:
        return "unknown"
    return (
        f"{value:,.2f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def _sizes(dims: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in dims.items())


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {_plain(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_plain, value))
    return str(value)


def _listed(items: list[str]) -> str:
    return "; ".join(items) + "."
