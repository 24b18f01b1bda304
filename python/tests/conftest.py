"""Tests of the pytest plugin run pytest on tests of their own, in a directory of their own, as a user does."""

import json
import os
import pathlib

import pytest

pytest_plugins = "pytester"

#: Longer than anything here may take on a loaded machine, seconds.
PATIENCE = 300


@pytest.fixture(autouse=True, scope="session")
def surroundings():
    """What a user's own settings and a CI job would change."""
    home = pathlib.Path.home()
    # `pytester` has a home of its own, where the libraries' names would be made anew.
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "ftest"
    with pytest.MonkeyPatch.context() as patch:
        if "FTEST_CACHE_DIR" not in os.environ:
            patch.setenv("FTEST_CACHE_DIR", str(cache))
        for name in ("CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "FTEST_RUNS_DIR", "PYTEST_ADDOPTS", "FTEST_WARM"):
            patch.delenv(name, raising=False)
        for name in [name for name in os.environ if name.startswith("PYTEST_XDIST_")]:
            patch.delenv(name)
        yield


class Session:
    """A pytest session on test files."""

    def __init__(self, pytester, request):
        self.pytester = pytester
        self.path = pytester.path
        # From a checkout the plugin is named; installed, it is found.
        self.plugins = [] if request.config.pluginmanager.hasplugin("ftest") else ["-p", "ftest.pytest.plugin"]

    def write(self, text, name="test_it.py"):
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run(self, *arguments):
        return self.pytester.runpytest_subprocess(*self.plugins, *arguments, timeout=PATIENCE)

    def attempts(self):
        """The attempts in the kept runs, by case."""
        found = {}
        for log in sorted(self.path.glob(".ftest/runs/*/events.jsonl")):
            for line in log.read_text().splitlines():
                event = json.loads(line)
                if event["event"] == "attempt_finished":
                    found.setdefault(event["case"], []).append(event["attempt"])
        return found


@pytest.fixture
def session(pytester, request):
    return Session(pytester, request)


@pytest.fixture(scope="session")
def torch():
    """The test's ranks need PyTorch. This process does not import it, because it may have none of NVIDIA's libraries."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        pytest.skip("this Python has no PyTorch")
