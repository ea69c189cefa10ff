"""Runs a test file's cases in child processes that may die, and keeps what came of each case in a results file."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rank_device import test_source

BACKENDS = {"ocl": "occl", "cpu": "gloo"}
HERE = Path(__file__).resolve().parent
NO_CASES = "no device-generic cases"
PASSED = ("passed", "expected failure")
STARTUP_SECONDS = 900.0     # importing PyTorch's operator tests and generating tens of thousands of cases takes minutes


@functools.cache
def first_device():
    """The id of ocl:0: an id may be listed several times, a name, as CLPRIM_DEVICES may have it, may not. A process of
    its own finds it, as ranks can't be forked from one that has opened a driver."""
    code = "import torch; print(torch.ocl.get_device_properties(0).id)"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(import_paths()))
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True,
                          check=True).stdout.split()[-1]


@dataclass
class Choice:
    """Which cases of a file are run, and how."""
    match: str = ""
    exclude: str = ""
    sample: int = 1
    at_most: int = 0
    timeout: float = 60.0
    memory: int = 8 << 30
    fallback: str = "error"
    rename: str = ""
    again: bool = False
    ranks: int = 0      # of tests of torch.distributed; 0: tests of operators
    offset: int = 0     # of the first case in a sample


@dataclass
class TestFile:
    path: Path
    label: str
    folders: list[str] = field(default_factory=list)    # searched for modules that the file imports


@dataclass
class Record:
    """What is known of a file on a device."""
    total: int = 0
    chosen: list[str] | None = None
    ended: dict[str, dict] = field(default_factory=dict)
    started: str = ""
    problem: str = ""
    seconds: float = 0.0
    ranks: int = 0


def read_results(path):
    """Records by (file, device)."""
    records: dict[tuple[str, str], Record] = {}
    if not os.path.exists(path):
        return records
    with open(path) as results:
        for line in results:
            try:
                entry = json.loads(line)
            except ValueError:      # cut off by the death of its writer
                continue
            record = records.setdefault((entry["file"], entry["device"]), Record())
            if entry["event"] == "collected":
                record.total, record.chosen = entry["total"], entry["chosen"]
                record.ranks = entry.get("ranks", 0)
            elif entry["event"] == "start":
                record.started = entry["case"]
            elif entry["event"] == "forget":
                for case in entry["cases"]:
                    record.ended.pop(case, None)
                record.problem, record.chosen = "", record.chosen or None
            elif entry["event"] == "time":
                record.seconds += entry["seconds"]
            elif entry["event"] == "problem":
                record.problem = entry["reason"]
            else:
                record.ended[entry["case"]] = entry
                record.started = ""
    return records


def last_lines(log, count=25):
    text = Path(log).read_text(errors="replace") if os.path.exists(log) else ""
    return "\n".join(text.splitlines()[-count:])


def place_of_death(log):
    """The innermost Python line of the dump that a dying process leaves, with its message if there is one."""
    text = Path(log).read_text(errors="replace") if os.path.exists(log) else ""
    frames = re.findall(r'File "([^"]+)", line (\d+) in (\S+)', text[text.rfind("Fatal Python error"):])
    frames = [frame for frame in frames if "threading.py" not in frame[0]]
    said = re.findall(r"(?:what\(\):|terminate called|INTERNAL ASSERT|double free|corrupted).*", text)
    place = f"in {frames[0][2]} ({os.path.basename(frames[0][0])}:{frames[0][1]})" if frames else "no stack"
    return f"{said[-1][:200]} {place}" if said else place


class FileRunner:
    """One test file on one device."""

    def __init__(self, test, device, choice, results):
        self.test, self.device, self.choice, self.results = test, device, choice, str(results)

    def record(self):
        return read_results(self.results).get((self.test.label, self.device), Record())

    def write(self, **entry):
        with open(self.results, "a") as results:
            results.write(json.dumps({"file": self.test.label, "device": self.device, **entry}) + "\n")

    def run(self, cases=None):
        """All chosen cases (or those named) have ended afterwards, unless the file cannot be collected."""
        while True:
            before = self.record()
            wanted = before.chosen if cases is None else cases
            if before.problem or (wanted is not None and before.ended.keys() >= set(wanted)):
                return
            with tempfile.TemporaryDirectory(prefix="pytorch-suites-") as folder:
                code, hung, log = self.child(folder, before, cases)
                after = self.record()
                if after.started:
                    self.write(event="end", case=after.started, outcome="hung" if hung else "crashed",
                               reason=place_of_death(log) if hung or code else "ended the process",
                               error=last_lines(log))
                elif len(after.ended) == len(before.ended) and (after.chosen or after.chosen is None):
                    # Nothing happened: it would not the next time either.
                    self.write(event="problem", reason="hung before the first case" if hung else problem_of(log))

    def source(self, folder):
        """The file itself, or a changed copy: the device that it names by hand has become this one, and what only the
        generators of an older PyTorch could bear is gone."""
        if self.choice.ranks:
            return self.tree(folder)
        text = self.test.path.read_text()
        changed = text.replace("super(self.__class__, self)", "super()")
        # Later versions give samples with a third thing.
        changed = re.sub(r"for (\w+, subtest_ctx) in", r"for \1, *_ in", changed)
        if self.device == "ocl":    # operators that the tests make for CUDA are made for this device
            changed = re.sub(r'(\.impl\(\s*[^()]*,\s*)"CUDA"\)', r'\1"PrivateUse1")', changed)
        changed = self.renamed(changed)
        if changed == text:
            return self.test.path, self.test.path.parent
        copy = Path(folder) / "changed" / self.test.path.name
        copy.parent.mkdir()
        for sibling in self.test.path.parent.iterdir():     # files that the test reads beside itself
            if self.choice.rename and sibling.name == "common_utils.py":    # lists the devices of parameters
                (copy.parent / sibling.name).write_text(self.renamed(sibling.read_text()))
            elif sibling != self.test.path and sibling.name != "__pycache__":
                (copy.parent / sibling.name).symlink_to(sibling)
        copy.write_text(changed)
        return copy, copy.parent

    def renamed(self, text):
        """The device that the text names by hand has become this one; `torch.backends` has no other modules."""
        if not self.choice.rename:
            return text
        return re.sub(rf"(?<![a-zA-Z_])(?<!backends\.){self.choice.rename}(?![a-zA-Z])", self.device, text)

    def tree(self, folder):
        """A changed copy of PyTorch's distributed tests: they name CUDA and NCCL, and import their neighbours."""
        root = next(parent for parent in self.test.path.parents if parent.name == "distributed")
        for neighbour in root.parent.iterdir():
            if neighbour != root:
                (Path(folder) / neighbour.name).symlink_to(neighbour)
        for source in root.rglob("*.py"):
            copy = Path(folder) / "distributed" / source.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(test_source(source.read_text(), self.device, BACKENDS[self.device], source.name))
        path = Path(folder) / "distributed" / self.test.path.relative_to(root)
        return path, path.parent

    def ranks_environment(self, folder):
        """The device is listed once for each rank: tests count devices and take the one of their rank. Threads that are
        ranks would share PyTorch's cache of fake tensors, which forgets the devices that are current in them."""
        own = {"PYTORCH_SUITES_RANKS": f"{self.device} {BACKENDS[self.device]} {self.choice.ranks} "
                                       f"{int(self.choice.timeout)} {folder}",
               "BACKEND": BACKENDS[self.device], "WORLD_SIZE": str(self.choice.ranks), "TEMP_DIR": folder,
               "OMP_NUM_THREADS": "1", "TORCH_OCL_FALLBACK": "error",
               "TORCH_FAKE_TENSOR_DISPATCH_CACHE": "0",
               "TORCH_OCL_INTEGRATIONS": "0"}      # whose look for a GPU would open drivers before the fork
        if self.device == "ocl":
            own["CLPRIM_DEVICES"] = ",".join([first_device()] * self.choice.ranks)
        return own

    def child(self, folder, before, cases):
        """(exit code, whether it had to be ended, log)"""
        path, root = self.source(folder)
        job = asdict(self.choice) | {
            "device": self.device, "label": self.test.label, "results": self.results, "cases": cases,
            "done": sorted(before.ended), "collected": before.chosen is not None,
            "paths": [str(root), str(Path(folder) / "distributed")] if self.choice.ranks else self.test.folders}
        description, log = os.path.join(folder, "job.json"), os.path.join(folder, "log")
        Path(description).write_text(json.dumps(job))
        environment = dict(os.environ, PYTORCH_SUITES_JOB=description, PYTORCH_TEST_WITH_SLOW="0",
                           PYTORCH_DISABLE_FP32_PRECISION_LEAK_CHECK="1",    # tests of versions before it leak
                           PYTHONPATH=os.pathsep.join([str(HERE), *import_paths()]))
        if self.choice.ranks:
            environment.update(self.ranks_environment(folder))
        command = [sys.executable, "-m", "pytest", "-p", "distributed_plugin" if self.choice.ranks else "device_plugin",
                   "-p", "no:cacheprovider", "--noconftest", "-q",
                   "--tb=short", "-c", os.devnull, f"--rootdir={root}", "-W", "ignore",
                   "--continue-on-collection-errors",
                   *(["--capture=no"] if self.choice.ranks else []), str(path)]
        with open(log, "w") as output:
            process = subprocess.Popen(command, env=environment, cwd=self.test.path.parent, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=output, start_new_session=True)
        try:
            hung = self.watch(process)
        except BaseException:       # told to stop: nothing is left running
            end(process)
            raise
        return process.wait(), hung, log

    def watch(self, process):
        """Ends the process when a case takes too long; says whether it had to."""
        size, since = -1, time.monotonic()
        while process.poll() is None:
            time.sleep(0.2)
            now = os.path.getsize(self.results) if os.path.exists(self.results) else 0
            if now != size:
                size, since = now, time.monotonic()
                limit = self.choice.timeout + 60 * bool(self.choice.ranks) if self.record().started else STARTUP_SECONDS
            elif time.monotonic() - since > limit:
                end(process)
                return True
        end(process)        # children that it left
        return False


def end(process):
    """SIGABRT first: Python then writes where every thread was."""
    for number, patience in ((signal.SIGABRT, 10), (signal.SIGKILL, 0)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(patience or None)
        except subprocess.TimeoutExpired:
            continue


def import_paths():
    """PYTHONPATH from anywhere: children run elsewhere, and their own children too."""
    return [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def problem_of(log):
    text = Path(log).read_text(errors="replace") if os.path.exists(log) else ""
    errors = re.findall(r"^E\s+(\S.*)", text, re.MULTILINE)
    if not errors and "no tests ran" in text:
        return NO_CASES
    return (errors[-1] if errors else last_lines(log, 3))[:400]


def run_file(test, choice, results):
    """The device first; then the CPU runs the cases that did not pass there, unless they name their device by hand."""
    device = FileRunner(test, "ocl", choice, results)
    if choice.again:
        for runner in (device, FileRunner(test, "cpu", choice, results)):
            ended = runner.record().ended.values()
            runner.write(event="forget", cases=[entry["case"] for entry in ended if entry["outcome"] not in PASSED])
    device.run()
    if choice.rename:
        return
    record = device.record()
    kept = (*PASSED, "skipped") if choice.ranks else PASSED     # tests of ranks skip what they have no device for
    missed = [name for name, entry in record.ended.items() if entry["outcome"] not in kept]
    if missed:
        FileRunner(test, "cpu", choice, results).run(missed)
