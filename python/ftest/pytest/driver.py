"""One `ftest run --drive`: the suite that it reads, the process, and what it reports about each case."""

import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from importlib.util import find_spec

from .. import programs

START = pathlib.Path(__file__).with_name("start") / "rank.py"
SUITE = "pytest"
#: What the process imports, beside PyTorch, from which ranks are forked.
WARM = "ftest.pytest.warm"
#: The line of a suite's first case.
FIRST = 4
#: From the end of its input until ftest has ended its cases and itself, seconds.
ENDING = 60


#: How the directories are named that sessions write their suites to.
PREFIX = "ftest-pytest-"


class Unusable(Exception):
    """Nothing can be run; the message says why and what to do."""


def program():
    """The ftest to run.

    Raises Unusable."""
    try:
        return programs.find("ftest")
    except programs.Elsewhere as elsewhere:
        raise Unusable(f"{elsewhere}; leave these tests out with -m 'not cluster'") from None
    except programs.Missing as missing:
        raise Unusable(str(missing)) from None


def interpreter():
    """This Python, under a name that ftest recognizes as Python."""
    this = pathlib.Path(sys.executable)
    for name in ("python3", "python"):
        other = this.with_name(name)
        if other.exists() and other.samefile(this):
            return str(other)
    return str(this)


def write_suite(directory, name, entries, session):
    """Writes the suite of these (test, nodeid, Marked) to `suite.yaml` in the directory, together with the files that their ranks
    read and write. Each case is on its own line, from line FIRST on, so that a line identifies a case. Returns the paths of the
    suite and the results."""
    # Without PyTorch nothing is forked, and a suite with few processes is faster without forking.
    forks = find_spec("torch") is not None and not session["print"]
    results = os.path.join(directory, "results")
    shutil.rmtree(results, ignore_errors=True)
    os.makedirs(results)
    beside = os.path.join(directory, "session.json")
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(session, file)
    lines = ["ftest: 1", f"suite: {name}", "cases:"]
    for test, nodeid, mark in entries:
        os.mkdir(os.path.join(results, mark.id))
        argv = [interpreter(), str(START), beside, test, nodeid, os.path.join(results, mark.id)]
        launch = {"argv": argv}
        if mark.ranks is not None:
            launch["ranks"] = mark.ranks
        if mark.warm is not None:
            launch["warm"] = mark.warm
        if mark.warm is not False and forks:
            launch["warm"] = [WARM]
        case = {"id": mark.id, "python": "system", "launch": launch, **mark.case}
        # JSON is YAML.
        lines.append("  - " + json.dumps(case, ensure_ascii=False, default=str))
    suite = os.path.join(directory, "suite.yaml")
    with open(suite, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return suite, results


def make_place():
    """A new directory, and a descriptor with a lock on it that lasts as long as this process. Removes directories of killed
    sessions, whose locks are free."""
    for left in pathlib.Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left)
            finally:
                os.close(descriptor)
    while True:
        place = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX))
        # Until it is locked, another session may mistake it for an abandoned one.
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if place.exists():
                return place, descriptor
            os.close(descriptor)


class Driver:
    """Runs the cases of `marked`, a list of (test, nodeid, Marked), one by one, on request."""

    def __init__(self, marked, session, directory, runs, keep):
        self.program = program()
        self.marked = list(marked)
        self.session = session
        self.directory = directory
        self.runs = runs
        self.keep = keep
        self.place, self.lock = make_place()
        #: Why cases of these ids cannot be run.
        self.mistakes = {}
        #: The run's directory, when it has begun.
        self.run = None
        self.changed = threading.Condition()
        self.start()

    def start(self):
        self.over = False
        self.finished = {}
        self.attempts = {}
        suite, self.results = write_suite(self.place, SUITE, self.marked, self.session)
        command = [self.program, "run", suite, "--drive", "--jobs", "1", "--keep-runs", str(self.keep)]
        if self.runs:
            command += ["--runs-dir", self.runs]
        environment = {"FTEST_WARM": "1", **os.environ, "FTEST_PYTHON": interpreter()}
        environment.pop("PYTEST_CURRENT_TEST", None)
        with open(self.place / "stderr", "wb") as stderr:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=self.directory,
                env=environment,
            )
        threading.Thread(target=self.read, args=(self.process.stdout,), daemon=True).start()

    def read(self, output):
        """Records what ftest reports, until it ends."""
        with output:
            for line in output:
                # What a killed ftest wrote last may be half a line.
                if not line.endswith(b"\n"):
                    break
                event = json.loads(line)
                with self.changed:
                    self.take(event)
                    self.changed.notify_all()
        with self.changed:
            self.over = True
            self.changed.notify_all()

    def take(self, event):
        kind = event["event"]
        if kind == "run_started":
            runs = self.runs or os.environ.get("FTEST_RUNS_DIR") or ".ftest/runs"
            self.run = os.path.join(self.directory, runs, event["run"])
        elif kind == "attempt_finished":
            self.attempts.setdefault(event["case"], []).append(event["attempt"])
        elif kind == "case_finished":
            self.finished[event["case"]] = event

    def result(self, identifier):
        """Runs the case; returns its `case_finished` and its attempts. If its mark has a mistake, returns None and the
        messages about it.

        Raises Unusable if ftest ends first. Each wait ends with ftest, which has a deadline for everything it does."""
        case = f"{SUITE}/{identifier}"
        self.wait(lambda: self.run is not None)
        while self.run is None:
            self.leave_out_mistakes()
            self.wait(lambda: self.run is not None)
        if identifier in self.mistakes:
            return None, self.mistakes[identifier]
        try:
            self.process.stdin.write(f"{case}\n".encode())
            self.process.stdin.flush()
        except OSError:
            # Its last output says why.
            pass
        self.wait(lambda: case in self.finished)
        if case not in self.finished:
            raise Unusable(f"{self.program} ended with {self.process.wait()} before it had a result:\n{self.said()}")
        return self.finished[case], self.attempts.get(case, [])

    def wait(self, condition):
        with self.changed:
            self.changed.wait_for(lambda: condition() or self.over)

    def said(self):
        """What ftest wrote to stderr."""
        return (self.place / "stderr").read_text(errors="replace").strip() or "it said nothing"

    def leave_out_mistakes(self):
        """Called when ftest did not begin. If that is due to some of the cases, restarts it without them.

        Raises Unusable if it is not."""
        code = self.process.wait()
        said = self.said()
        found = {}
        for sentence, line in mistakes(said):
            found.setdefault(line - FIRST, []).append(sentence)
        wrong = {self.marked[index][2].id: lines for index, lines in found.items() if 0 <= index < len(self.marked)}
        if code != 2 or not wrong:
            raise Unusable(f"{self.program} ended with {code} and did not begin:\n{said}")
        self.mistakes.update(wrong)
        self.marked = [entry for entry in self.marked if entry[2].id not in wrong]
        if self.marked:
            self.start()
        else:
            # Nothing is left to begin.
            self.run = ""

    def end(self):
        """Ends ftest, and the case that still runs. Returns what ftest reported besides the cases' results, and whether that is
        why it failed."""
        process = self.process
        if process.poll() is None:
            try:
                process.stdin.close()
            except OSError:
                # What it did not read.
                pass
            try:
                process.wait(ENDING)
            except subprocess.TimeoutExpired:
                # Its guard ends what it leaves.
                process.kill()
                process.wait()
        elif process.stdin:
            try:
                process.stdin.close()
            except OSError:
                pass
        said = (self.place / "stderr").read_text(errors="replace").strip()
        shutil.rmtree(self.place, ignore_errors=True)
        os.close(self.lock)
        bad = any(event["verdict"]["is"] not in ("passed", "skipped") for event in self.finished.values())
        return said, process.returncode != 0 and not bad and bool(self.run)


def mistakes(text):
    """(message, line) of each mistake in ftest's output about a suite file."""
    for block in re.split(r"^(?=error: )", text, flags=re.MULTILINE):
        place = re.search(r"-->.*?:(\d+):\d+$", block, flags=re.MULTILINE)
        if not block.startswith("error: ") or place is None:
            continue
        helps = re.findall(r"^\s*= help: (.*)$", block, flags=re.MULTILINE)
        yield "; ".join([block.splitlines()[0].removeprefix("error: "), *helps]), int(place.group(1))
