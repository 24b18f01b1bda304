"""The hooks: marked tests are pytest's own items, run as cases on a cluster; everything else is left to pytest."""

import builtins
import inspect
import json
import os
import subprocess
import sys
import warnings

import pytest

from . import failure, marks, verdict
from .driver import Driver, Unusable, program, write_suite
from .rank import RANK, options_of, without_marks

#: sys.path before pytest changed it: a rank's pytest changes it again.
PATH = pytest.StashKey()
CLUSTERS = pytest.StashKey()
RESULT = pytest.StashKey()
#: Runs to keep, for each pytest process that has one.
KEEP = 10
DOCUMENTATION = (
    "cluster(nodes=1, gpus_per_node=2, profile='h100', **case): run the test on every rank of a simulated cluster, one process each. "
    "Other arguments: cluster, ranks, after, warm, and the keys of a case in ftest's suite language (timeout, sanitize, allow_gaps, "
    "expect, env, faults, ...)"
)


def pytest_addoption(parser):
    group = parser.getgroup("ftest", "clusters without GPUs (ftest)")
    group.addoption(
        "--ftest-report",
        metavar="DIR",
        help="write index.html, junit.xml and the kept run of the tests with @pytest.mark.cluster to this directory",
    )
    group.addoption(
        "--ftest-suite",
        metavar="FILE",
        help="run nothing; write the tests with @pytest.mark.cluster to this file, as a suite of `ftest run`",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    early_config.stash[PATH] = list(sys.path)


def pytest_configure(config):
    config.addinivalue_line("markers", DOCUMENTATION)
    if RANK not in config.stash:
        config.stash[CLUSTERS] = Clusters(config)


def pytest_sessionstart(session):
    plugins = session.config.pluginmanager
    debugger = None if in_rank(session.config) else plugins.unregister(name="pdbinvoke")
    if debugger is not None:
        plugins.register(Debugger(debugger), "pdbinvoke")


class Debugger:
    """What `--pdb` does, for failures of this process. For a test that failed in its ranks, there is nothing to see
    here."""

    def __init__(self, plain):
        self.plain = plain

    def pytest_exception_interact(self, node, call, report):
        if not isinstance(call.excinfo.value, failure.ClusterFailure):
            self.plain.pytest_exception_interact(node, call, report)
            return
        failed = [rank.number for rank in call.excinfo.value.result.ranks if rank.outcome == "failed"]
        mark = node.config.stash[CLUSTERS].marked[node]
        terminal = node.config.pluginmanager.getplugin("terminalreporter")
        terminal.ensure_newline()
        terminal.write_line("--pdb does not stop in a rank, which has no terminal. This stops one for a debugger:", yellow=True)
        terminal.write_line(f"    ftest {node.path} -E 'case({mark.id})' --debug-rank {min(failed, default=0)}")

    def pytest_internalerror(self, excrepr, excinfo):
        self.plain.pytest_internalerror(excrepr, excinfo)


def in_rank(config):
    return RANK in config.stash


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    if in_rank(config):
        return
    for item in items:
        if item.get_closest_marker("cluster") is not None:
            config.stash[CLUSTERS].adopt(item)


def pytest_collection_finish(session):
    option = session.config.option
    failed = session.testsfailed and not option.continue_on_collection_errors
    if in_rank(session.config) or failed:
        return
    if option.ftest_suite:
        session.config.stash[CLUSTERS].write(session.items, os.path.abspath(option.ftest_suite))
    elif not option.collectonly:
        session.config.stash[CLUSTERS].begin(session.items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    # Anything but None ends it.
    return True if session.config.option.ftest_suite else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    result = item.stash.get(RESULT, None)
    if result is not None and report.when == "call":
        report.duration = result.attempt.get("duration_us", 0) / 1e6
        if result.broken and hasattr(report, "wasxfail"):
            # A test that was not executed might well have passed.
            del report.wasxfail
            report.outcome = "failed"
            report.longrepr = item.repr_failure(call.excinfo)
    return report


def pytest_sessionfinish(session):
    if in_rank(session.config):
        return
    clusters = session.config.stash[CLUSTERS]
    clusters.end()
    if clusters.failed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Called when a worker of pytest-xdist has ended: its runs are part of the report."""
    clusters, output = node.config.stash[CLUSTERS], getattr(node, "workeroutput", None) or {}
    clusters.runs += output.get("ftest_runs", [])
    clusters.said += output.get("ftest_said", [])
    clusters.failed |= output.get("ftest_failed", False)


def pytest_unconfigure(config):
    clusters = config.stash.get(CLUSTERS, None)
    if clusters is not None:
        clusters.end()
        clusters.report()


def pytest_terminal_summary(terminalreporter, config):
    clusters = config.stash.get(CLUSTERS, None)
    if clusters is None:
        return
    for text in clusters.said:
        terminalreporter.write_line(text, red=clusters.failed)
    if clusters.report():
        terminalreporter.write_line(f"ftest: {clusters.page} has the clusters of these tests")


class Clusters:
    """The marked tests of this pytest process."""

    def __init__(self, config):
        self.config = config
        self.marked = {}
        self.drivers = []
        #: Directories of runs.
        self.runs = []
        #: What ftest said beside the results, and whether it ended with an error that no test has.
        self.said = []
        self.failed = False
        self.trouble = None
        self.reported = False
        directory = config.getoption("ftest_report")
        self.directory = directory and os.path.abspath(os.path.join(config.invocation_params.dir, directory))
        self.page = self.directory and os.path.join(self.directory, "index.html")

    def adopt(self, item):
        """Lets the item run on its cluster instead of here."""
        plain = item.repr_failure
        # The ranks set up its fixtures, and decide whether it is skipped, because they have a GPU.
        without_marks(item, "skipif")
        item.setup = lambda: None
        item.teardown = lambda: None
        item.runtest = lambda: self.runtest(item)

        def repr_failure(excinfo, *rest, **named):
            if isinstance(excinfo.value, failure.ClusterFailure):
                return failure.represent(excinfo.value.result, item)
            return plain(excinfo, *rest, **named)

        item.repr_failure = repr_failure

    def begin(self, items):
        """Starts ftest for these items. Whatever keeps it from running is reported as each test's failure."""
        self.read(items)
        try:
            self.new_driver([item for item, mark in self.marked.items() if isinstance(mark, marks.Marked)])
        except (Unusable, OSError) as trouble:
            self.trouble = str(trouble)

    def read(self, items):
        taken = set()
        for item in items:
            if item.get_closest_marker("cluster") is None:
                continue
            if item not in self.marked:
                try:
                    self.marked[item] = marks.read(item, taken)
                    taken.add(self.marked[item].id)
                except marks.Mistake as mistake:
                    self.marked[item] = mistake

    def write(self, items, suite):
        """Writes these items as a suite, and beside it the files that their ranks read.

        Raises UsageError if one of the marks cannot be used, or there is none."""
        self.read(items)
        wrong = [failure.placed(item, mark) for item, mark in self.marked.items() if isinstance(mark, marks.Mistake)]
        # Without it the test would pass unchecked.
        alone = "only pytest calls `after`; in a suite, write expect={'report': [...]}"
        marked = [(item, mark) for item, mark in self.marked.items() if isinstance(mark, marks.Marked)]
        wrong += [failure.placed(item, alone) for item, mark in marked if mark.after is not None]
        if wrong or not marked:
            raise pytest.UsageError("\n".join(map(str, wrong)) or "no test has @pytest.mark.cluster")
        # A suite cannot express a test that is never run.
        entries = [(*self.test_of(item), mark) for item, mark in marked if item.get_closest_marker("skip") is None]
        name = marks.id_of(os.path.splitext(os.path.basename(items[0].path))[0], ())
        write_suite(os.path.dirname(suite), name, entries, {**self.session_of(), "print": True})

    def new_driver(self, items):
        if not items:
            return None
        entries = [(*self.test_of(item), self.marked[item]) for item in items]
        workers = getattr(self.config, "workerinput", {}).get("workercount", 1)
        runs = self.directory and os.path.join(self.directory, "runs")
        driver = Driver(entries, self.session_of(), str(self.config.rootpath), runs, KEEP * workers)
        driver.items = set(items)
        self.drivers.append(driver)
        return driver

    def test_of(self, item):
        """What a rank's pytest is told to run, and the id under which it finds it."""
        nodeid = item.nodeid
        if self.config.getoption("loadgroup", False) and item.get_closest_marker("xdist_group"):
            # pytest-xdist appends the group in its workers.
            nodeid = nodeid.rpartition("@")[0]
        _, _, rest = nodeid.partition("::")
        return f"{item.path}::{rest}", nodeid

    def session_of(self):
        worker = getattr(self.config, "workerinput", {})
        path = list(self.config.stash.get(PATH, sys.path))
        home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        return {
            "directory": str(self.config.invocation_params.dir),
            "path": path if home in path else [*path, home],
            "options": options_of(self.config),
            "worker": {"workerid": worker.get("workerid", "master"), "testrunuid": worker.get("testrunuid", "")},
            "print": False,
        }

    def runtest(self, item):
        """Runs the item on its cluster. Raises the exception from which pytest derives its result."""
        mark = self.marked.get(item)
        if isinstance(mark, marks.Mistake):
            failure.fail(item, str(mark))
        if self.trouble or mark is None:
            failure.fail(item, self.trouble or "it was not collected with the others")
        driver = next((driver for driver in self.drivers if item in driver.items), None)
        try:
            if driver is None:
                # It runs again: a case has one result in a run.
                driver = self.new_driver([item])
            driver.items.discard(item)
            finished, attempts = driver.result(mark.id)
        except (Unusable, OSError) as trouble:
            self.trouble = str(trouble)
            failure.fail(item, self.trouble)
        if finished is None:
            failure.fail(item, "; ".join(attempts))
        result = verdict.conclude(self.config, finished, attempts, os.path.join(driver.results, mark.id), driver.run)
        item.stash[RESULT] = result
        self.show(item, result)
        if result.outcome == "skipped":
            raise pytest.skip.Exception(result.reason, _use_item_location=True)
        if result.outcome == "xfailed":
            pytest.xfail(result.reason)
        if result.outcome == "failed":
            raise failure.raised(result, item)
        if mark.after is not None:
            call_with_fixtures(item, mark.after)

    def show(self, item, result):
        """The ranks' output, logs, properties and warnings become the item's."""
        seen = set()
        for rank in result.ranks:
            for name in ("stdout", "stderr"):
                text = text_of(rank.process[name], result.run)
                if text:
                    section = failure.without_stack(text) if name == "stderr" and rank.outcome == "ended early" else text
                    if section:
                        item.add_report_section("call", f"{name} rank {rank.number}", section)
                    if self.config.getoption("capture") == "no":
                        for line in text.splitlines():
                            print(f"[rank {rank.number}] {line}", file=getattr(sys, name))
            for report in rank.reports:
                for title, text in report.sections:
                    if "log" in title:
                        item.add_report_section(report.when, f"log rank {rank.number}", text)
                if rank is result.ranks[0] and report.when == "teardown":
                    item.user_properties += [(name, value) for name, value in report.user_properties]
            for message, category, filename, line in rank.warnings:
                if (message, filename, line) not in seen:
                    seen.add((message, filename, line))
                    kind = getattr(builtins, category, UserWarning)
                    warnings.warn_explicit(message, kind, filename, line)

    def end(self):
        for driver in self.drivers:
            said, failed = driver.end()
            self.failed |= failed
            if said and driver.run:
                self.said.append(said)
            if driver.run:
                self.runs.append(driver.run)
        self.drivers = []
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output.update(ftest_runs=self.runs, ftest_said=self.said, ftest_failed=self.failed)

    def report(self):
        """Writes the requested report, once, if this process is the first of the session. Returns whether there is one."""
        if not self.directory or not self.runs or hasattr(self.config, "workerinput"):
            return False
        if not self.reported:
            self.reported = True
            junit = os.path.join(self.directory, "junit.xml")
            command = [program(), "merge", *self.runs, "--html", self.page, "--junit", junit]
            merged = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if not os.path.exists(self.page):
                warnings.warn(f"ftest did not write {self.page}: {merged.stderr.strip()}", stacklevel=1)
        return os.path.exists(self.page)


def text_of(stream, run):
    """What is known about a stream."""
    if not stream["truncated"]:
        return stream["head"] + stream["tail"]
    place = f"; all of it: {os.path.join(run, stream['file'])}" if stream.get("file") else ""
    return f"{stream['head']}\n[... {stream['bytes']} bytes in all{place}]\n{stream['tail']}"


def call_with_fixtures(item, function):
    """Calls the function the way pytest calls a test: each parameter is a fixture, or a parameter of the test."""
    names = inspect.signature(function).parameters
    function(**{name: item._request.getfixturevalue(name) for name in names})


def outside(name):
    pytest.fail(f"the fixture `{name}` is for tests with @pytest.mark.cluster, on whose ranks it has a value", pytrace=False)


def of_rank(request, variable, name):
    if not in_rank(request.config):
        outside(name)
    value = os.environ.get(variable)
    if value is None:
        pytest.fail(f"`{name}`: the mark says ranks=None, so this process is none of the ranks", pytrace=False)
    return int(value)


@pytest.fixture(scope="session")
def rank(request):
    """The rank that the test runs on."""
    return of_rank(request, "RANK", "rank")


@pytest.fixture(scope="session")
def world_size(request):
    """How many ranks run the test."""
    return of_rank(request, "WORLD_SIZE", "world_size")


@pytest.fixture(scope="session")
def device(request):
    """The rank's GPU, a torch.device, which is made the current one."""
    index = of_rank(request, "LOCAL_RANK", "device")
    try:
        import torch
    except ModuleNotFoundError:
        pytest.fail("the fixture `device` needs PyTorch, which this Python does not have", pytrace=False)
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


@pytest.fixture
def cluster_report(request):
    """The cluster report of a test with @pytest.mark.cluster, in the function that its mark names as `after`."""
    if in_rank(request.config):
        pytest.fail(
            "`cluster_report` is complete when the ranks have ended: take it in a function, and name that in the mark,"
            " @pytest.mark.cluster(..., after=function)",
            pytrace=False,
        )
    result = request.node.stash.get(RESULT, None)
    if result is None:
        outside("cluster_report")
    if result.cluster_report is None:
        pytest.fail("this test has no cluster report: the run could not be kept", pytrace=False)
    with open(result.cluster_report, encoding="utf-8") as file:
        return json.load(file)
