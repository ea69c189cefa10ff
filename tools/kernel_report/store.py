"""figures.json: the committed figures, a line for each kernel, and the comparison with them."""
from __future__ import annotations

import json
from pathlib import Path

FILE = Path(__file__).with_name("figures.json")
# What is kept of a kernel; "error" stands for all of them where it did not compile.
FIELDS = ("group_size", "registers", "simd", "spill_bytes", "private_bytes", "local_bytes", "resident_groups",
          "occupancy", "issued", "fmas", "share", "around_issued", "around_share", "local_bytes_per_fma",
          "global_bytes_per_fma", "loads_in_flight", "loaded_bytes", "stored_bytes")
OF_PROBLEM = ("instructions_per_element", "groups")   # of a kernel that other problems have as well
POINTS = 2   # of share that may be lost


def load(path: Path = FILE) -> dict:
    """{target: {"compiler", "problems": {name: [kernel]}, "refused": {name: why}}}, as Report.target gives it."""
    if not path.exists():
        return {}
    kept = json.loads(path.read_text())
    targets = {}
    for target, found in kept["targets"].items():
        kernels = {}
        for key, values in found["kernels"].items():
            program, kernel, _ = key.split(" ")
            entry = {"kernel": f"{program.rsplit('-', 1)[0]}:{kernel}", "program": program}
            entry |= {"error": values} if isinstance(values, str) else {
                field: value for field, value in zip(kept["fields"], values) if value is not None}
            kernels[key] = entry
        problems = {name: [kernels[key] | {what: value for what, value in zip(OF_PROBLEM, values) if value is not None}
                           for key, *values in each] for name, each in found["problems"].items()}
        targets[target] = {"compiler": found["compiler"], "problems": problems, "refused": found["refused"]}
    return targets


def save(targets: dict, path: Path = FILE) -> None:
    """One line for each kernel and problem, so that a change of one is a change of a line."""
    parts = []
    for target, found in targets.items():
        kernels, problems = {}, {}
        for name, each in found["problems"].items():
            rows = []
            for kernel in each:
                launch = f"{kernel.get('group_size', 0)}/{kernel.get('local_bytes', 0)}"
                key = f"{kernel['program']} {kernel['kernel'].split(':')[1]} {launch}"
                kernels[key] = kernel.get("error") or [kernel.get(field) for field in FIELDS]
                rows.append([key, *(kernel.get(what) for what in OF_PROBLEM)])
            problems[name] = rows
        lines = [f'"{target}": {{"compiler": {json.dumps(found["compiler"])},']
        for title, table in (("kernels", kernels), ("problems", problems), ("refused", found["refused"])):
            rows = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(table.items()))
            lines.append(f' "{title}": {{\n{rows}\n }}' + ("," if title != "refused" else "}"))
        parts.append("\n".join(lines))
    path.write_text(f'{{"fields": {json.dumps(FIELDS)},\n"targets": {{\n' + ",\n".join(parts) + "\n}}\n")


def merge(old: dict, new: dict) -> dict:
    """`new` over `old`, problem by problem: a run may have been of some problems and targets."""
    result = dict(old)
    for target, found in new.items():
        before = old.get(target, {"problems": {}, "refused": {}})
        problems = {n: k for n, k in before["problems"].items() if n not in found["refused"]} | found["problems"]
        refused = {n: w for n, w in before["refused"].items() if n not in found["problems"]} | found["refused"]
        result[target] = {"compiler": found["compiler"], "problems": problems, "refused": refused}
    return result


def by_key(kernels: list[dict]) -> dict[tuple[str, int], dict]:
    """Kernels by their name and their place among those of that name."""
    result, seen = {}, {}
    for kernel in kernels:
        place = seen[kernel["kernel"]] = seen.get(kernel["kernel"], -1) + 1
        result[kernel["kernel"], place] = kernel
    return result


def worse(old: dict, new: dict) -> list[str]:
    """In which respects a kernel is worse than it was."""
    found = []
    for what, name in (("spill_bytes", "spills"), ("private_bytes", "private memory")):
        if new[what] > old[what]:
            found.append(f"{name}: {new[what]} bytes, was {old[what]}")
    shares = [("share", "share")]
    if new["fmas"] == old["fmas"]:   # else another part of the work is counted once
        shares.append(("around_share", "share with the loop around"))
    for what, name in shares:
        if old["fmas"] >= 4 and new.get(what, 100) < old.get(what, 0) - POINTS:
            found.append(f"{name}: {new[what]:.1f} %, was {old[what]:.1f} %")
    return found


def heaviest(kernels: list[dict]) -> dict | None:
    """What a kernel under a new name is compared with: the most memory and the main share of the problem's old ones."""
    good = [kernel for kernel in kernels if "error" not in kernel]
    if not good:
        return None
    main = max(good, key=lambda k: k["fmas"])
    return {"fmas": main["fmas"], "share": main["share"],
            **{what: max(k[what] for k in good) for what in ("spill_bytes", "private_bytes")}}


def compare(old: dict, new: dict) -> list[str]:
    """What is worse than the committed figures, a line each. Kernels marked "unchanged" are not looked at."""
    messages: dict[str, list[str]] = {}   # problems by what is wrong
    for target, found in new.items():
        before = old.get(target, {"problems": {}, "refused": {}})
        for name, kernels in found["problems"].items():
            was = by_key(before["problems"].get(name, []))
            total = heaviest(list(was.values()))
            main = max((k for k in kernels if "fmas" in k), key=lambda k: k["fmas"], default=None)
            for key, kernel in by_key(kernels).items():
                line = f"{target} {kernel['kernel']}"
                if kernel.get("unchanged"):
                    continue
                if "error" in kernel:
                    if "error" not in was.get(key, {}):
                        messages.setdefault(f"{line}: does not compile: {kernel['error']}", []).append(name)
                    continue
                known = was.get(key)
                reference = known if known and "error" not in known else total
                if reference is None:   # a problem without figures: only what is bad in itself
                    reference = {"spill_bytes": 0, "private_bytes": 0, "fmas": 0, "share": 0}
                elif reference is total and kernel is not main:   # a helper beside the main kernel has any share
                    reference = total | {"fmas": 0}
                for text in worse(reference, kernel):
                    messages.setdefault(f"{line}: {text}", []).append(name)
        for name, why in found["refused"].items():
            if name in before["problems"]:
                messages.setdefault(f"{target}: refused: {why}", []).append(name)
    return [f"{text} ({names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''})"
            for text, names in messages.items()]
