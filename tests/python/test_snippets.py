"""What documents and headers show of C++ and C is compiled, with what they leave out declared around it."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES_OF = ["net", "pointwise", "reduce", "interop", "onnx_operator"]    # headers that begin with one
GIVEN = """
#include <fstream>
#include <vector>
#include <clprim/clprim.hpp>
#include <clprim/interop.hpp>
#include <clprim/onnx.hpp>
#include <clprim/onnx_operator.hpp>
#include <clprim/reduce.hpp>
#include <clprim/softmax.hpp>
#include <clprim/solver.hpp>
#include <clprim/weights.hpp>
using namespace clprim;
extern Context& context;
extern Queue& queue;
extern Tensor a, b, x, y, sum, squares, tensor, memory;
extern OnnxModel model;
extern HostTensor labels;
extern std::vector<float> pixels;
extern cl_event their_event;
extern cl_command_queue their_queue;
extern std::uint64_t seed;
"""
# What stands for the reader's own.
LEFT_OUT = [(r"for \(\.\.\.\)", "for (;;)"), (r"handle\(\)\(\), \.\.\.\)", "handle()(), 0, 64, nullptr, nullptr)"),
            (r"loop: .*", ""), (r"^\s*\.\.\.", "")]


def fences(language):
    found = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        codes = re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.M | re.S)
        found += [(f"{path.name} {i}", code) for i, code in enumerate(codes)]
    return found


def examples():
    for name in EXAMPLES_OF:
        begin = (ROOT / f"include/clprim/{name}.hpp").read_text().split("#pragma once")[0]
        yield f"{name}.hpp", "".join(line[3:] + "\n" for line in begin.splitlines() if line.startswith("//     "))


def test_threads_are_stated():
    """docs/cpp.md says of every class what several threads may do with it."""
    headers = "".join(path.read_text() for path in (ROOT / "include/clprim").glob("*.hpp"))
    classes = set(re.findall(r"^class (\w+)[^;]*\{$", headers, re.M))
    table = (ROOT / "docs/cpp.md").read_text().split("What several threads may do")[1].split("| the core")[0]
    assert len(classes) > 20 and classes == set(re.findall(r"`(\w+)`", table)) - {
        "Tensor", "run", "cancel", "profile", "trace", "save", "replay"}


def whole(code):
    for pattern, own in LEFT_OUT:
        code = re.sub(pattern, own, code, flags=re.M)
    return code


def compiled(tmp_path, name, text, *command):
    compiler = next((found for found in map(shutil.which, command) if found), None)
    if not compiler:
        pytest.skip(f"there is none of {', '.join(command)}")
    source = tmp_path / name
    source.write_text(text)
    standard = "-std=c++20" if name.endswith(".cpp") else "-std=c99"
    ran = subprocess.run([compiler, standard, "-fsyntax-only", f"-I{ROOT / 'include'}", str(source)],
                         capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_cpp(tmp_path):
    snippets = [*fences("cpp"), *examples()]
    assert len(snippets) >= 10 and all(code.strip() for _, code in snippets)
    text = GIVEN
    for i, (name, code) in enumerate(snippets):
        includes = re.findall(r"^#include .*\n", code, re.M)
        body = re.sub(r"^#include .*\n", "", whole(code), flags=re.M)
        text += "".join(includes) + f'void snippet{i}()\n{{\n#line 1 "{name}"\n{body}\n}}\n'
    compiled(tmp_path, "snippets.cpp", text, "clang++", "g++", "c++")


def test_c(tmp_path):
    codes = [code for name, code in fences("c") if name.startswith("onnx.md")]
    assert codes
    functions = "".join(f"void snippet{i}(void)\n{{\n{code}\n}}\n" for i, code in enumerate(codes))
    compiled(tmp_path, "snippets.c", "#include <stdio.h>\n#include <clprim.h>\n" + functions, "clang", "gcc", "cc")
