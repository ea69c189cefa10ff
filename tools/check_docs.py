#!/usr/bin/env python3
"""Checks the documents: links between them lead somewhere, snippets of Python parse, those of JSON load, and shell
snippets name files, make targets and modules that exist (`make check`)."""
import ast
import importlib.util
import json
import re
import sys
import textwrap
from pathlib import Path

from check_style import names

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def documents():
    return [ROOT / name for name in names() if name.endswith(".md")]


def anchor(heading):
    """As GitHub and MkDocs make them."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"\s", "-", re.sub(r"[^\w\- ]", "", heading.strip().lower()))


def anchors(path):
    text = FENCE.sub("", path.read_text())
    return {anchor(line.lstrip("#")) for line in text.splitlines() if line.startswith("#")}


def check_links(path, text):
    for match in LINK.finditer(FENCE.sub("", text)):
        target = match[1] or match[2]
        if re.match(r"\w+:", target):
            continue
        name, _, fragment = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists():
            yield f"the link {target} leads nowhere"
        elif fragment and file.suffix == ".md" and fragment not in anchors(file):
            yield f"the link {target} names a heading that is not there"


def python_problem(code):
    try:
        ast.parse(textwrap.dedent(code))
    except SyntaxError as error:
        return f"Python does not parse: {error.msg}: {error.text}"
    return None


def json_problem(code):
    try:
        json.loads(code)
    except ValueError as error:
        return f"JSON does not load: {error}"
    return None


def shell_problem(code):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in code.splitlines():
        command = line.split("#")[0]
        for target in re.findall(r"(?:^|&& )make ([a-z-]+)\b", command):
            if target not in targets:
                return f"there is no make target {target}"
        for file in re.findall(r"(?<![\w/.-])((?:tools|examples|benchmarks|tests|docs)/[\w./-]+)", command):
            if not (ROOT / file).exists():
                return f"there is no {file}"
        for module in re.findall(r"python3? -m (torch_ocl|clprim)\b", command):
            if importlib.util.find_spec(module) is None and not (ROOT / "python" / module).is_dir():
                return f"there is no module {module}"
    return None


PROBLEMS = {"python": python_problem, "py": python_problem, "json": json_problem, "sh": shell_problem,
            "bash": shell_problem}


def check_snippets(text):
    for language, code in FENCE.findall(text):
        problem = PROBLEMS.get(language, lambda _: None)(code)
        if problem:
            yield problem


def main():
    problems, snippets = [], 0
    for path in documents():
        text = path.read_text()
        snippets += len(FENCE.findall(text))
        problems += [f"{path.relative_to(ROOT)}: {what}" for what in [*check_links(path, text), *check_snippets(text)]]
    print("\n".join(problems) or f"documents: {len(documents())} with {snippets} snippets are in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
