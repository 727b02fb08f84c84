"""Figures over the results of a suite: by level and overall, failures counted as zero where the benchmark does."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
CELLS = (
    "accepted_correct", "accepted_wrong", "rejected_correct", "rejected_wrong", "undecided_correct", "undecided_wrong",
)  # fmt: skip


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the figures of CONTRACT 9: `levels`, `overall`, and our verdict against the benchmark's."""
    levels = sorted({int(r["level"]) for r in rows})
    return {
        "levels": {str(n): figures([r for r in rows if r["level"] == n]) for n in levels},
        "overall": figures(rows),
        "verdicts": verdicts(rows),
        "failures": _counts(rows, lambda r: r["failure_class"] or ("refused" if r["status"] == "refused" else None)),
        "weak_judges": [
            {"id": n, "kind": kind, "faults": list(faults)}
            for n, kind, faults in sorted({(r["id"], r["kind"], tuple(r["judge"])) for r in rows if r["judge"]})
        ],
        "graded_by": _counts(rows, lambda r: r["graded_by"]),
    }  # fmt: skip


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the figures of some results.

    A task without a program is a failure; one that could not be graded is left out of `comp` and `func`, and counted.
    Means that the benchmark takes with zeros are `..._mean_with_zeros`: a failure is zero, and a functional program that
    could not be timed is left out. Means over functional programs say so.
    """
    graded = [r for r in rows if r["comp"] is not None]
    functional = [r for r in graded if r["func"]]
    speeds = [float(r["speed_vs_reference"]) for r in functional if r["speed_vs_reference"] is not None]
    scores = [float(r["score"]) for r in functional if r["score"] is not None]
    fractions = [float(r["sol_fraction"]) for r in functional if r["sol_fraction"] is not None]
    failures = len(graded) - len(functional)
    first = [r for r in graded if r["sample"] == 1]
    tasks = {(r["id"], r["level"]) for r in graded}
    solved = {(r["id"], r["level"]) for r in functional}
    return {
        "results": len(rows),
        "graded": len(graded),
        "not_graded": len(rows) - len(graded),
        "refused": sum(r["status"] == "refused" for r in rows),
        "clarified": sum(bool(r["clarified"]) for r in rows),
        "func_percent_clarified": _percent(
            sum(bool(r["func"]) for r in graded if r["clarified"]), sum(bool(r["clarified"]) for r in graded)
        ),
        "comp_percent": _percent(sum(bool(r["comp"]) for r in graded), len(graded)),
        "func_percent": _percent(len(functional), len(graded)),
        "func_official_percent": _percent(sum(bool(r["func_official"]) for r in graded), len(graded)),
        "func_percent_first_sample": _percent(sum(bool(r["func"]) for r in first), len(first)),
        "func_percent_best_sample": _percent(len(solved), len(tasks)),
        "score_mean_with_zeros": _with_zeros(scores, failures),
        "score_mean_functional": statistics.fmean(scores) if scores else None,
        "speed_vs_reference_mean_with_zeros": _with_zeros(speeds, failures),
        "speed_vs_reference_geomean_functional": _geomean(speeds),
        "speed_vs_reference_median_functional": statistics.median(speeds) if speeds else None,
        "sol_fraction_median_functional": statistics.median(fractions) if fractions else None,
        "timed": len(speeds),
        "calls": _total(rows, "calls"),
        "input_tokens": _total(rows, "input_tokens"),
        "output_tokens": _total(rows, "output_tokens"),
        "usd": _total(rows, "usd"),
        "seconds": _total(rows, "seconds"),
    }


def verdicts(rows: Sequence[Row]) -> dict[str, Any]:
    """Return our verdict against the benchmark's, over the results that have both, with agreement."""
    table = dict.fromkeys(CELLS, 0)
    for r in rows:
        if r["outcome"] in {"accepted", "rejected", "undecided"} and r["func"] is not None:
            table[f"{r['outcome']}_{'correct' if r['func'] else 'wrong'}"] += 1
    decided = [r for r in rows if r["outcome"] in {"accepted", "rejected"} and r["func"] is not None]
    sound = [r for r in decided if not r["judge"]]
    accepted = table["accepted_correct"] + table["accepted_wrong"]
    correct = table["accepted_correct"] + table["rejected_correct"]
    return {
        **table,
        "agreement_percent": _percent(sum(map(_agrees, decided)), len(decided)),
        "agreement_percent_of_sound_judges": _percent(sum(map(_agrees, sound)), len(sound)),
        "false_acceptances_percent_of_accepted": _percent(table["accepted_wrong"], accepted),
        "false_rejections_percent_of_correct": _percent(table["rejected_correct"], correct),
        "disputed": [
            {key: r[key] for key in ("id", "kind", "level", "sample", "outcome", "func", "ours", "judge", "failure_class", "detail")}
            for r in decided
            if not _agrees(r)
        ],
    }  # fmt: skip


def _agrees(row: Row) -> bool:
    return bool(row["func"]) is (row["outcome"] == "accepted")


def compare(a: Sequence[Row], b: Sequence[Row]) -> dict[str, Any]:
    """Return two runs paired by id, level and sample: who solved what, and how speeds relate."""
    left = {(r["id"], r["level"], r["sample"]): r for r in a}
    right = {(r["id"], r["level"], r["sample"]): r for r in b}
    both = sorted(left.keys() & right.keys())
    pairs = [(left[k], right[k]) for k in both]
    judged = [(x, y) for x, y in pairs if x["func"] is not None and y["func"] is not None]
    ratios = [
        y["speed_vs_reference"] / x["speed_vs_reference"]
        for x, y in judged
        if x["func"] and y["func"] and x["speed_vs_reference"] and y["speed_vs_reference"]
    ]
    only_a = sum(bool(x["func"]) and not y["func"] for x, y in judged)
    only_b = sum(bool(y["func"]) and not x["func"] for x, y in judged)
    return {
        "paired": len(pairs),
        "only_in_a": len(left.keys() - right.keys()),
        "only_in_b": len(right.keys() - left.keys()),
        "both_functional": sum(bool(x["func"]) and bool(y["func"]) for x, y in judged),
        "only_a_functional": only_a,
        "only_b_functional": only_b,
        "neither_functional": sum(not x["func"] and not y["func"] for x, y in judged),
        "sign_test_p": sign_test(only_a, only_b),
        "speed_b_over_a_geomean": _geomean(ratios),
        "timed_in_both": len(ratios),
        "a": figures([x for x, _ in pairs]),
        "b": figures([y for _, y in pairs]),
        "levels": {
            str(n): {
                "a": figures([x for x, _ in pairs if x["level"] == n]),
                "b": figures([y for _, y in pairs if y["level"] == n]),
            }
            for n in sorted({int(x["level"]) for x, _ in pairs})
        },
        "changed": [
            {"id": x["id"], "level": x["level"], "sample": x["sample"], "kind": x["kind"], "a": x["func"], "b": y["func"]}
            for x, y in judged
            if bool(x["func"]) != bool(y["func"])
        ],
    }  # fmt: skip


def sign_test(a: int, b: int) -> float | None:
    """Return the two-sided p of `a` against `b` wins when each were equally likely; `None` without a difference."""
    n = a + b
    if n == 0:
        return None
    tail = sum(math.comb(n, k) for k in range(min(a, b) + 1)) / (1 << n)
    return min(1.0, 2 * tail)


def _percent(part: int, whole: int) -> float | None:
    return 100.0 * part / whole if whole else None


def _with_zeros(values: Sequence[float], failures: int) -> float | None:
    """Return the mean of values and as many zeros as there are failures; `None` where nothing was measured."""
    return sum(values) / (len(values) + failures) if values else None


def _geomean(values: Sequence[float]) -> float | None:
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def _total(rows: Sequence[Row], key: str) -> float | None:
    """Return a sum, `None` as soon as one part is unknown."""
    values = [r[key] for r in rows]
    return None if any(v is None for v in values) else float(sum(values))


def _counts(rows: Iterable[Row], key: Callable[[Row], str | None]) -> dict[str, int]:
    found: dict[str, int] = {}
    for r in rows:
        name = key(r)
        if name:
            found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items(), key=lambda item: -item[1]))
