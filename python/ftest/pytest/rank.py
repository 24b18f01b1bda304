"""pytest in one rank: runs one test and records the outcome, for the pytest that waits for it."""

import contextlib
import gc
import json
import os
import pdb
import sys
import tempfile

import pytest
from _pytest.config import Config
from _pytest.debugging import pytestPDB

#: In the stash of the configuration of a rank's pytest.
RANK = pytest.StashKey()

# Options that concern the session as a whole: selecting and ordering tests, distributing and repeating them, reporting,
# debugging.
RESET = {
    "cacheclear": False,
    "cacheshow": None,
    "collectonly": False,
    "deselect": None,
    "dist": "no",
    "distload": False,
    "doctestmodules": False,
    "failedfirst": False,
    "file_or_dir": None,
    "ftest_report": None,
    "ftest_suite": None,
    "junitprefix": None,
    "keyword": "",
    "lf": False,
    "looponfail": False,
    "markexpr": "",
    "maxfail": 0,
    "maxprocesses": None,
    "newfirst": False,
    "numprocesses": None,
    "pastebin": None,
    "pyargs": False,
    "reruns": None,
    "setuponly": False,
    "setupplan": False,
    "setupshow": False,
    "stepwise": False,
    "stepwise_skip": False,
    "trace": False,
    "tx": [],
    "usepdb": False,
    "xmlpath": None,
}
#: The exit code of a rank that skipped its test where no pytest waits for it: a suite has no word for that, and it has not passed.
SKIPPED = 77
BLOCKED = ("rerunfailures", "pytest_cov", "stepwise")


def options_of(config):
    """The options of `config` that a rank's pytest gets, as JSON; options that JSON cannot represent have their default
    there."""
    options = {}
    for name, value in vars(config.option).items():
        if name in RESET or name.startswith("cov"):
            continue
        with contextlib.suppress(TypeError, ValueError):
            json.dumps(value)
            options[name] = value
    options["rootdir"] = str(config.rootpath)
    # If there is no file, none is searched for closer to the test.
    options["inifilename"] = str(config.inipath or os.devnull)
    if options.get("confcutdir"):
        options["confcutdir"] = os.path.abspath(options["confcutdir"])
    return options


def main(session, test, nodeid, results):
    """Runs `test`, whose id in the session is `nodeid`, and returns the exit code. Reports go to files in the directory
    `results`."""
    # What this process began with, PyTorch if it was forked from a warm one: looking for garbage there, as pytest and Python do
    # several times when they end, takes longer than a short test.
    gc.freeze()
    os.chdir(session["directory"])
    sys.argv = ["pytest", test]
    number = os.environ.get("RANK", "0")
    attempt = os.environ.get("FTEST_ATTEMPT", "1")
    with open(os.path.join(results, f"{number}.{attempt}"), "wb", buffering=0) as file:
        reports = Reports(file)
        try:
            code = run(session, test, nodeid, reports)
        except pytest.UsageError as error:
            reports.write(error="\n".join(map(str, error.args)))
            code = pytest.ExitCode.USAGE_ERROR
        if code == 0 and session["print"] and reports.skipped:
            code = SKIPPED
        reports.write(end=int(code))
    return int(code)


def run(session, test, nodeid, reports):
    options = {name: value for name, value in RESET.items() if name != "file_or_dir"}
    options.update(session["options"])
    options["capture"] = "no"
    options["basetemp"] = os.path.join(tempfile.gettempdir(), "rank-" + os.environ.get("RANK", "0"))
    options["plugins"] = [*(options.get("plugins") or []), *("no:" + name for name in BLOCKED)]
    config = Config.fromdictargs(options, [test])
    # How plugins recognize a process that is not the session's first: it writes no reports and no cache.
    config.workerinput = session["worker"]
    config.workeroutput = {}
    config.stash[RANK] = True
    config.pluginmanager.register(Rank(config, nodeid, reports, session["print"]))
    return config.hook.pytest_cmdline_main(config=config)


class Reports:
    """The file that the waiting pytest reads: one object per line."""

    def __init__(self, file):
        self.file = file
        self.skipped = False

    def write(self, **record):
        # Whole lines, because a rank may be killed at any time.
        self.file.write(json.dumps(record, default=str).encode() + b"\n")


def without_marks(item, *names):
    """Hides marks of these names from whoever asks `item` for its marks. Its module and class may share them with other tests."""
    plain = item.iter_markers_with_node

    def iter_markers_with_node(name=None):
        return ((node, mark) for node, mark in plain(name) if mark.name not in names)

    item.iter_markers_with_node = iter_markers_with_node


class Rank:
    """The plugin of a rank's pytest."""

    def __init__(self, config, nodeid, reports, aloud):
        self.config = config
        self.nodeid = nodeid
        self.reports = reports
        self.aloud = aloud

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config):
        # Its plugin is blocked: the test is rerun as a whole, not one of its ranks.
        config.addinivalue_line("markers", "flaky: of pytest-rerunfailures")
        # Standard output belongs to the test. A reporter is still needed: pytest 8.0 asks it how to explain an
        # assertion.
        reporter = config.pluginmanager.unregister(name="terminalreporter")
        if reporter is not None:
            self.nowhere = open(os.devnull, "w")
            config.pluginmanager.register(type(reporter)(config, self.nowhere), "terminalreporter")
        # pytest's own, which it restores, would read from a terminal.
        sys.breakpointhook = pdb.set_trace = no_debugger

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        found = [item for item in items if item.nodeid == self.nodeid]
        if not found:
            others = ", ".join(item.nodeid for item in items) or "nothing"
            self.reports.write(
                error=f"this rank does not find {self.nodeid} but {others}: tests must not depend on the process that collects them"
                " (parameters from torch.cuda, from random numbers or from the order of a set?)"
            )
        items[:] = found[:1]
        if not self.aloud:
            for item in items:
                # The waiting pytest decides for all ranks together which failure is expected.
                without_marks(item, "xfail")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if call.excinfo is not None:
            report.raised = [name_of(kind) for kind in call.excinfo.type.__mro__]
        return report

    def pytest_runtest_logreport(self, report):
        self.write(report)

    def pytest_collectreport(self, report):
        if not report.passed:
            self.write(report)

    def write(self, report):
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        # Nobody needs them, and they may be long.
        data.pop("keywords", None)
        data.pop("result", None)
        self.reports.write(report=data)
        self.reports.skipped |= report.skipped and not hasattr(report, "wasxfail")
        if self.aloud and not report.passed:
            print(f"{report.when} of {report.nodeid}: {report.outcome}\n{report.longreprtext}", file=sys.stderr)

    def pytest_internalerror(self, excrepr):
        self.reports.write(error=str(excrepr))
        print(excrepr, file=sys.stderr)

    def pytest_warning_recorded(self, warning_message):
        message, category = warning_message.message, warning_message.category
        self.reports.write(
            warning=[str(message), category.__name__, warning_message.filename, warning_message.lineno],
        )


def no_debugger(*arguments, **named):
    """What `breakpoint()` does in a rank that nobody debugs."""
    __tracebackhide__ = True
    if sys.stdin is not None and sys.stdin.isatty():
        return pytestPDB.set_trace(*arguments, **named)
    pytest.fail("breakpoint() in a rank, which has no terminal: `ftest FILE -E 'case(TEST)' --debug-rank RANK` stops it for a debugger")


def name_of(kind):
    """An exception class, so that another process can tell whether it has the same."""
    return f"{kind.__module__}:{kind.__qualname__}"
