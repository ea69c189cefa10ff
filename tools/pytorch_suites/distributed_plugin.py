"""pytest plugin of tools/pytorch_suites: runs the cases of one test file of torch.distributed, each in a process of its
own that is forked from the one that collected, so that what a case breaks it breaks alone.

PYTORCH_SUITES_JOB names a JSON file that says which cases (`Job` in runner.py); rank_device.py adapts PyTorch.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

with open(os.environ["PYTORCH_SUITES_JOB"]) as job_file:
    JOB = json.load(job_file)
import rank_device  # noqa: E402, F401

sys.path[1:1] = JOB["paths"]
USED = Path(os.environ["PYTORCH_SUITES_RANKS"].split(" ", 4)[-1]) / "used"
DEATH = re.compile(r"(Expected exit code \d+ but got|terminated with exit code|exit ?code:?) -\d+.*|SIG(SEGV|ABRT)")
ERROR = re.compile(r"(E\s+)?([a-zA-Z_.]*(Error|Exception|Failure|Interrupt)\b|Process \d+ (terminated|timed|exited))")


def name_of(item):
    return re.sub(r"^.*?::", "", item.nodeid)


def write(**entry):
    with open(JOB["results"], "a") as results:
        results.write(json.dumps({"file": JOB["label"], "device": JOB["device"], **entry}) + "\n")


def reason_of(text):
    """The line that says what went wrong in the rank that failed first."""
    said = [re.sub(r"^E\s+", "", line).strip() for line in text.splitlines() if ERROR.match(line)]
    outer = re.compile(r"(RuntimeError: )?(Process|Thread|Exception in worker process)\b")
    inner = [line for line in said if not outer.match(line)]
    return (inner or said or text.splitlines()[-1:] or [""])[0][:400]


def outcome_of(reports):
    for report in reports:
        if report.failed:
            text = report.longreprtext
            reason = reason_of(text)
            died = DEATH.search(text)
            hung = re.search(r"[Tt]imed out after \d+ seconds|timeout", reason)
            kind = "crashed" if died else "hung" if hung else "failed"
            return {"outcome": kind, "reason": died[0] if died else reason, "error": text[-4000:]}
    for report in reports:
        if report.skipped:
            text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            return {"outcome": "expected failure" if hasattr(report, "wasxfail") else "skipped", "reason": text[-300:],
                    "error": ""}
    return {"outcome": "passed", "reason": "", "error": ""}


def run_case(item):
    """In the forked process: never returns."""
    from _pytest.runner import runtestprotocol

    os.setsid()
    stacks = open(USED.parent / "stacks", "w")      # of a case that hangs
    faulthandler.dump_traceback_later(JOB["timeout"] + 10, file=stacks)
    try:
        outcome = outcome_of(runtestprotocol(item, nextitem=None, log=False))
        import torch

        rank_device.mark_use(torch, USED.parent)
        if JOB["device"] == "ocl" and outcome["outcome"] == "passed" and not USED.exists():
            outcome.update(outcome="skipped", reason="the case never uses the device")
        write(event="end", case=name_of(item), **outcome)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def place_of(stacks):
    """Where the first thread is that runs a test."""
    for thread in stacks.split("\n\n"):
        frames = re.findall(r'File "([^"]+)", line (\d+) in (\S+)', thread)
        if any(name.startswith("test_") for _, _, name in frames):
            return f"no end: in {frames[0][2]} ({os.path.basename(frames[0][0])}:{frames[0][1]})"
    return "no end of the case"


def end_session(process):
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


class DistributedPlugin:
    def pytest_collection_modifyitems(self, config, items):
        cases = [item for item in items if item.cls is not None]
        if JOB["cases"] is not None:
            chosen = [item for item in cases if name_of(item) in set(JOB["cases"])]
        else:
            chosen = [item for item in cases if re.search(JOB["match"], name_of(item))
                      and not (JOB["exclude"] and re.search(JOB["exclude"], name_of(item)))]
            every = max(JOB["sample"], -(-len(chosen) // JOB["at_most"]) if JOB["at_most"] else 1)
            chosen = chosen[::every]
        names = [name_of(item) for item in chosen]
        if not JOB["collected"] and cases:
            write(event="collected", total=len(cases), chosen=names, ranks=JOB["ranks"])
        for name in sorted(set(JOB["cases"] or ()) - set(names) - set(JOB["done"])):
            write(event="end", case=name, outcome="absent")
        items[:] = [item for item in chosen if name_of(item) not in set(JOB["done"])]

    def pytest_collectreport(self, report):
        if report.failed:
            errors = re.findall(r"^E\s+(\S.*)", report.longreprtext, re.MULTILINE)
            write(event="problem", reason=errors[-1] if errors else report.longreprtext[-200:])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        write(event="start", case=name_of(item))
        USED.unlink(missing_ok=True)
        process = os.fork()
        if process == 0:
            run_case(item)
        begin = time.monotonic()
        limit = begin + JOB["timeout"] + 20      # the ranks' own limit comes first and says where they are
        while True:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended or time.monotonic() > limit:
                break
            time.sleep(0.02)
        end_session(process)        # also ranks that the case left behind
        if not ended:
            os.waitpid(process, 0)
            stacks = (USED.parent / "stacks").read_text(errors="replace")
            write(event="end", case=name_of(item), outcome="hung", reason=place_of(stacks), error=stacks[-4000:])
        elif not self.has_ended(name_of(item)):
            write(event="end", case=name_of(item), outcome="crashed", error="",
                  reason=f"the case's process ended with status {os.waitstatus_to_exitcode(status)}")
        write(event="time", case=name_of(item), seconds=round(time.monotonic() - begin, 1))
        return True

    def has_ended(self, name):
        with open(JOB["results"]) as results:
            last = json.loads(results.readlines()[-1])
        return last["event"] == "end" and last["case"] == name


def pytest_configure(config):
    config.pluginmanager.register(DistributedPlugin())
