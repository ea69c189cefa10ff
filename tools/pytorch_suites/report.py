"""What came of the cases: compared with the CPU, put into classes, as a table and as JSON."""

from __future__ import annotations

import collections
import re
from dataclasses import dataclass, field

import reasons
from runner import NO_CASES, PASSED, Record

# In these words a case says that it is about something that is neither this device nor the CPU.
OTHER_DEVICE = re.compile(r"only supports? cpu|not compiled with (CUDA|XPU|MPS)|not linked with support for mps|"
                          r"Found no NVIDIA|NVIDIA driver|"
                          r"torch\.cuda|'cuda'|cuda:\d|"
                          r"Expected (a )?'?cuda|CUDA (error|is not|not avail)|_cuda\w* (is|not)|cudnn|cublas|"
                          r"'torch\._C' has no attribute '_cuda|Only runs on|onlyCUDA|doesn't run on|XLA|ROCm|MPS|"
                          r"Triton|fewer than \d+ devices|requires (cuda|CUDA|GPU)|CUDA not|cuda not|No CUDA|"
                          r"quantized engine|is not supported for fused")


@dataclass
class Outcome:
    case: str
    kind: str       # passed, failed, crashed, hung, other
    reason: str = ""
    error: str = ""


@dataclass
class FileReport:
    label: str
    total: int
    outcomes: list[Outcome]
    problem: str = ""

    def count(self, kind):
        return sum(outcome.kind == kind for outcome in self.outcomes)

    @property
    def applicable(self):
        return len(self.outcomes) - self.count("other")


def compare(case, entry, native):
    """What an outcome on the device means beside the CPU's (None: the CPU has no such case)."""
    outcome, reason = entry["outcome"], entry.get("reason", "")
    if outcome in PASSED:
        return Outcome(case, "passed")
    if outcome in ("failed", "skipped") and OTHER_DEVICE.search(reason):
        return Outcome(case, "other", reason)
    if native is None or native["outcome"] == "absent":     # not compared: the case names its device by hand
        return Outcome(case, "other" if outcome == "skipped" else outcome, reason, entry.get("error", ""))
    if native["outcome"] != "passed":     # an expected failure is one, too
        if outcome in ("failed", "skipped"):
            return Outcome(case, "other", reason)
        if native["outcome"] == outcome:     # dies on the CPU too
            return Outcome(case, "other", reason)
    if outcome == "skipped":
        return Outcome(case, "failed", f"skipped: {reason.removeprefix('Skipped: ')}")
    return Outcome(case, outcome, reason, entry.get("error", ""))


def compare_ranks(case, entry, native):
    """Tests of torch.distributed: a case that the CPU fails in the same words is about something else. In other words
    it may only lack what modules of accelerators have."""
    outcome, reason = entry["outcome"], entry.get("reason", "")
    if outcome in PASSED:
        return Outcome(case, "passed")
    same = native is not None and native["outcome"] == outcome and said(native.get("reason", ""), reason)
    other = same or outcome == "skipped" or reasons.OTHER_VERSION.search(f"{case} {reason}")
    return Outcome(case, "other" if other else outcome, reason, entry.get("error", ""))


def said(native, reason):
    """Whether both fail alike. An error of Gloo's comes with the operation, the group and the rank in front of it."""
    of_gloo = "gloo/transport" in native
    native, reason = (re.sub(r"\b(ocl|cpu|occl|gloo)\b|[\d.]+", "_", text) for text in (native, reason))
    return native == reason or (of_gloo and reason.strip().endswith(native.split(": ", 1)[-1].strip()))


def file_reports(records):
    reports = []
    for label in dict.fromkeys(label for label, _ in records):
        device, native = records.get((label, "ocl"), Record()), records.get((label, "cpu"), Record())
        judge = compare_ranks if device.ranks else compare
        outcomes = [judge(case, entry, native.ended.get(case)) for case, entry in device.ended.items()]
        reports.append(FileReport(label, device.total, outcomes,
                                  device.problem or ("" if device.ranks else native.problem)))
    return reports


def class_of(outcome):
    """Few words, the same for cases that miss alike."""
    text = re.sub(r"0x[0-9a-f]+", "0x..", outcome.reason)
    text = re.sub(r"\[[^\]]*\]|\([^)]*\d[^)]*\)", "[..]", re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "N", text))
    return f"{outcome.kind}: {text[:160]}"


def classes(reports):
    """Misses by explanation, or by what they say where none is known; commonest first."""
    result = collections.defaultdict(list)
    for report in reports:
        for outcome in report.outcomes:
            if outcome.kind in ("failed", "crashed", "hung"):
                why = reasons.explain(report.label, outcome)
                result[why or class_of(outcome)].append((report.label, outcome))
    return sorted(result.items(), key=lambda item: -len(item[1]))


def share(passed, applicable):
    return f"{100 * passed / applicable:.1f} %" if applicable else ""


KINDS = ("passed", "failed", "crashed", "hung", "other")


@dataclass
class Table:
    """What a table counts: [cases in file, run, and the kinds] or why there are none, by file; [misses, example] by
    why."""
    files: dict[str, list[int] | str] = field(default_factory=dict)
    misses: dict[str, list] = field(default_factory=dict)

    def add(self, reports):
        for report in reports:
            if report.problem and not report.outcomes:
                why = report.problem if report.problem == NO_CASES else f"cannot be collected: {report.problem}"
                self.files.setdefault(report.label, cell(why))
                continue
            known = self.files.get(report.label)
            counts = [len(report.outcomes), *(report.count(kind) for kind in KINDS)]
            if isinstance(known, list):
                counts = [before + now for before, now in zip(known[1:], counts)]
            self.files[report.label] = [report.total, *counts]
        for why, found in classes(reports):
            label, outcome = found[0]
            row = self.misses.setdefault(cell(why), [0, f"{label} `{outcome.case.replace('_DEVICE', '_ocl')}`"])
            row[0] += len(found)


def read_table(text):
    """The table that `markdown` wrote."""
    table = Table()
    for line in text.splitlines():
        cells = [each.strip() for each in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 9 and cells[0] != "file" and not cells[0].startswith("---"):
            table.files[cells[0]] = list(map(int, cells[1:8])) if cells[2] else cells[1]
        elif len(cells) == 3 and cells[0].isdigit():
            table.misses[cells[1]] = [int(cells[0]), cells[2]]
    return table


def markdown(reports, title, earlier):
    """The table and the classes of misses: those of an earlier table (which may be empty) and of the reports."""
    earlier.add(reports)
    counted = [row for row in earlier.files.values() if isinstance(row, list)]
    total = sum(row[2] for row in counted), sum(row[1] - row[6] for row in counted)
    lines = [f"{title}: **{total[0]} of {total[1]} applicable cases pass** ({share(*total)}).", "",
             "| file | cases in file | run | passed | failed | crashed | hung | not applicable | share of applicable |",
             "|---|---|---|---|---|---|---|---|---|"]
    for label, row in earlier.files.items():
        lines.append(f"| {label} | {row} | | | | | | | |" if isinstance(row, str) else
                     f"| {label} | " + " | ".join(map(str, row)) + f" | {share(row[2], row[1] - row[6])} |")
    lines += ["", "| misses | why | for example |", "|---|---|---|"]
    for why, (count, example) in sorted(earlier.misses.items(), key=lambda item: -item[1][0]):
        lines.append(f"| {count} | {why} | {example} |")
    return "\n".join(lines) + "\n"


def cell(text):
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def as_json(reports):
    return [{"file": report.label, "cases": report.total, "run": len(report.outcomes), "problem": report.problem,
             "outcomes": [vars(outcome) for outcome in report.outcomes]} for report in reports]
