"""One report of what the sections of run_all.sh left in a folder: `python -m tests.gpu.summary OUT` writes OUT/report.md."""

import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

_TITLES = (
    ("overhead", "Overhead per candidate", "overhead.md"),
    ("timing", "Timing", "timing.md"),
    ("profile", "Profiles", "profile.md"),
    ("sanitizer", "Library under the sanitizer", "sanitized/side_by_side.md"),
    ("branches", "Branches of the built-in templates", "branches.md"),
    ("suite", "The suite of tasks, graded", "suite.md"),
    ("library", "Library, cuda and cpu side by side", "side_by_side.md"),
)


def tests(out: Path) -> str:
    """Return counts and every test that did not pass, from the junit files."""
    files = sorted(out.glob("test_*.xml"))
    if not files:
        return "not measured: no junit file\n"
    cases = [c for p in files for c in ET.parse(p).getroot().iter("testcase")]  # noqa: S314 - our own pytest wrote it
    lines, counts = [], {"passed": 0, "failed": 0, "skipped": 0}
    for case in cases:
        bad = next((c for c in case if c.tag in {"failure", "error"}), None)
        skipped = next((c for c in case if c.tag == "skipped"), None)
        state = "failed" if bad is not None else "skipped" if skipped is not None else "passed"
        counts[state] += 1
        told = bad if bad is not None else skipped
        if told is not None:
            message = (
                (told.get("message") or "")
                .replace("\n", " ")
                .replace("|", "\\|")[: 1500 if bad is not None else 300]
            )
            lines.append(f"| {case.get('name')} | {state} | {float(case.get('time') or 0):.1f} | {message} |")
    head = ", ".join(f"{n} {s}" for s, n in counts.items()) + f" of {len(cases)}\n"
    return head + ("\n| test | state | s | message |\n|---|---|---|---|\n" + "\n".join(lines) + "\n" if lines else "")  # fmt: skip


def main() -> None:
    out = Path(sys.argv[1])
    parts = [f"# On a GPU, {time.strftime('%Y-%m-%d %H:%M')}\n"]
    sections = out / "sections.txt"
    if sections.is_file():
        parts += ["## Sections\n", "```", sections.read_text().strip(), "```\n"]
    doctor = out / "doctor.txt"
    if doctor.is_file():
        parts += ["## Machine\n", "```", doctor.read_text(errors="replace").strip()[:6000], "```\n"]
    parts += ["## Tests\n", tests(out)]
    for name, title, file in _TITLES:
        path, log = out / file, out / f"{name}.log"
        if path.is_file():
            parts += [f"## {title}\n", path.read_text()]
        elif log.is_file():
            last = "\n".join(log.read_text(errors="replace").strip().splitlines()[-15:])
            parts += [f"## {title}\n", "not measured; the section's last lines:\n", "```", last, "```\n"]
    (out / "report.md").write_text("\n".join(parts))
    print(f"{out / 'report.md'}: {sum(map(len, parts))} characters")


if __name__ == "__main__":
    main()
