"""tools/wheels.py: what wheels say of themselves. (Making them takes packages that tests do without.)"""
import importlib.util
import json
from pathlib import Path

import pytest
import torch

import clprim


def tool():
    file = Path(__file__).resolve().parents[2] / "tools" / "wheels.py"
    spec = importlib.util.spec_from_file_location("wheels", file)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(file.parent)
        spec.loader.exec_module(module)
    return module


def test_metadata():
    wheels = tool()
    assert wheels.version() == clprim.__version__
    summary, requires, extras, _, licences = wheels.packages()["torch_ocl"]
    text = wheels.metadata("torch-ocl", summary, requires, extras, licences)
    major, minor = torch.__version__.split(".")[:2]
    assert f"Version: {clprim.__version__}\n" in text and f"Requires-Dist: clprim=={clprim.__version__}\n" in text
    assert f"torch>={major}.{minor}" in text.replace(" ", "") or f"torch=={major}.{minor}" in text.replace(" ", "")


def test_a_module_for_each_python_with_headers(tmp_path):
    for minor in (10, 13):
        folder = tmp_path / str(minor)
        folder.mkdir()
        (folder / "Python.h").touch()
        (folder / "patchlevel.h").write_text("#define PY_MAJOR_VERSION\t3\n#define PY_MINOR_VERSION        "
                                             f"{minor}\n#define PY_MICRO_VERSION 2\n")
    wheels = tool()
    found = wheels.header_folders([str(tmp_path / "10"), str(tmp_path / "13")])
    assert found["cp310"] == tmp_path / "10" and found["cp313"] == tmp_path / "13"
    with pytest.raises(SystemExit, match="no Python"):
        wheels.header_folders(["nothing-here"])
    with pytest.raises(SystemExit, match="no Python.h"):
        wheels.header_folders([str(tmp_path)])


def test_licences_of_others_are_in_the_wheel(tmp_path):
    wheels = tool()
    summary, requires, extras, _, licences = wheels.packages()["clprim"]
    (tmp_path / "licenses").mkdir()
    (tmp_path / "METADATA").write_text(wheels.metadata("clprim", summary, requires, extras, licences))
    without = wheels.add_notices(tmp_path, "clprim")
    listed = {c["name"]: c for c in json.loads((tmp_path / "sboms/compiled_in.cdx.json").read_text())["components"]}
    assert listed["pybind11"]["version"] and "nlohmann-json3-dev" in listed
    text = (tmp_path / "METADATA").read_text()
    assert text.index("License-File: LICENSE\n") < text.index("License-File: pybind11.txt\n")
    assert (tmp_path / "licenses/pybind11.txt").read_text() and "pybind11" not in without
