"""What a wheel has to say of the libraries of others in it: their licences, and a list of them (CycloneDX, PEP 770).

Libraries that auditwheel took in are those of its own list; what was compiled in from headers is named here. Texts of
licences are those that Debian's packages and Python's bring.
"""
import importlib.metadata
import json
import shutil
import subprocess
import uuid
from pathlib import Path

# Debian packages of headers, and Python packages that bring some.
COMPILED_IN = {"clprim": (["nlohmann-json3-dev", "libcli11-dev", "opencl-clhpp-headers"], ["pybind11"]),
               "torch_ocl": (["opencl-clhpp-headers"], ["torch"])}


def debian_component(name):
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", name], capture_output=True, text=True) \
        if shutil.which("dpkg-query") else None
    version = done.stdout if done and done.returncode == 0 else ""
    return {"type": "library", "name": name, "version": version, "purl": f"pkg:deb/debian/{name}@{version}"}


def python_component(name):
    version = importlib.metadata.version(name)
    return {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}


def licence_of(component):
    """The file with a component's licence, or None."""
    name = component["name"]
    if not component["purl"].startswith("pkg:pypi/"):
        file = Path("/usr/share/doc") / name / "copyright"
        return file if file.exists() else None
    files = importlib.metadata.files(name) or []
    texts = [file for file in files if ".dist-info" in file.parts[0] and file.name.upper().startswith("LICENSE")]
    return Path(texts[0].locate()) if texts else None


def add_notices(info, package):
    """Adds licences and a list of what was compiled in to a wheel's folder of metadata; returns what has no licence."""
    debian, python = COMPILED_IN[package]
    compiled = [*map(debian_component, debian), *map(python_component, python)]
    (info / "sboms").mkdir(exist_ok=True)
    (info / "sboms/compiled_in.cdx.json").write_text(json.dumps(
        {"bomFormat": "CycloneDX", "specVersion": "1.4", "version": 1, "serialNumber": uuid.uuid4().urn,
         "metadata": {"component": {"type": "library", "name": package}}, "components": compiled}, indent=1))
    taken_in = info / "sboms/auditwheel.cdx.json"
    linked = json.loads(taken_in.read_text())["components"] if taken_in.exists() else []
    named, without = [], []
    for component in [c for c in linked if c["name"] != package] + compiled:
        file = licence_of(component)
        if file is None:
            without.append(component["name"])
            continue
        shutil.copy(file, info / "licenses" / f"{component['name']}.txt")
        named.append(f"License-File: {component['name']}.txt\n")
    metadata = info / "METADATA"
    text, own = metadata.read_text(), "License-File: LICENSE\n"
    metadata.write_text(text.replace(own, own + "".join(named), 1))
    return without
