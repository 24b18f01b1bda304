"""Runs what the GitHub action and the GitLab template run, as a repository without a checkout of ftest has it: two shards, in one
of which a case fails, and then the merge of both.

    products.py WHEEL DIRECTORY     needs PyYAML; the directory is empty
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as tree

import yaml

CHECKOUT = pathlib.Path(__file__).parent.parent
SUITE = """\
ftest: 1
suite: training
cases:
  - {id: first, launch: {argv: ["true"]}}
  - {id: second, launch: {argv: ["false"]}}
  - {id: third, launch: {argv: ["true"]}}
  - {id: fourth, launch: {argv: ["true"]}}
"""
#: What `ftest` ends with when a case failed, and when none did.
FAILED, PASSED = 1, 0


def run(script, directory, environment):
    """The exit code of a script, as both products run it."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=directory, env={**os.environ, **environment}).returncode


def check_reports(directory, what):
    counts = tree.parse(directory / "junit.xml").getroot().attrib
    assert (counts["tests"], counts["failures"], counts["errors"]) == ("4", "1", "0"), f"{what}: junit.xml says {counts}"
    assert "training/second" in (directory / "report.html").read_text(), f"{what}: the page lacks the case that failed"


class Action:
    """A job that uses the action. `artifacts` is what jobs of the same workflow kept."""

    def __init__(self, scratch, artifacts, repository, inputs):
        self.artifacts, self.repository = artifacts, repository
        self.action = yaml.safe_load((CHECKOUT / ".github/actions/ftest/action.yml").read_text())
        self.values = {f"inputs.{name}": str(given.get("default", "")) for name, given in self.action["inputs"].items()}
        for name, value in inputs.items():
            assert f"inputs.{name}" in self.values, name
            self.values[f"inputs.{name}"] = value
        self.scratch = scratch
        scratch.mkdir()
        self.summary = scratch / "summary.md"

    def fill(self, text):
        """Nothing else is known here than inputs, outputs of steps, and what runs it. An output that nothing has set is empty."""
        known = {**self.values, "runner.os": "Linux", "runner.arch": "X64"}

        def value(found):
            name = found[1]
            return known.get(name, "") if name.startswith("steps.") else known[name]

        return re.sub(r"\$\{\{ (.*?) \}\}", value, text)

    def holds(self, condition):
        """Comparisons with a text, joined by `&&`."""
        if condition == "always()":
            return True
        for term in condition.split(" && "):
            name, sign, text = re.fullmatch(r"(\S+) (==|!=) '(.*)'", term).groups()
            if (self.values.get(name, "") == text) != (sign == "=="):
                return False
        return True

    def run(self):
        """The exit code of the step that failed, else 0."""
        code = 0
        for step in self.action["runs"]["steps"]:
            condition = step.get("if", "")
            if (code and condition != "always()") or (condition and not self.holds(condition)):
                continue
            if "run" in step:
                code = self.shell(step)
            else:
                options = {name: self.fill(str(value)) for name, value in step["with"].items()}
                self.use(step["uses"].partition("@")[0], options)
        return code

    def shell(self, step):
        outputs = self.scratch / "outputs"
        outputs.write_text("")
        environment = {name: self.fill(value) for name, value in step["env"].items()}
        environment |= {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(self.summary)}
        environment["RUNNER_TEMP"] = str(self.scratch)
        code = run(step["run"], self.repository, environment)
        for line in outputs.read_text().splitlines():
            name, _, value = line.partition("=")
            self.values[f"steps.{step['id']}.outputs.{name}"] = value
        return code

    def use(self, action, options):
        if action == "actions/upload-artifact":
            if not options["path"]:
                return
            shutil.copytree(options["path"], self.artifacts / options["name"])
        elif action == "actions/download-artifact":
            for artifact in self.artifacts.glob(options["pattern"]):
                shutil.copytree(artifact, pathlib.Path(options["path"]) / artifact.name)
        else:
            # A first run finds nothing in the cache.
            assert action in ("actions/cache/restore", "actions/cache/save"), action


def github(wheel, place):
    repository, artifacts = place / "repository", place / "artifacts"
    repository.mkdir()
    artifacts.mkdir()
    (repository / "training.yaml").write_text(SUITE)
    codes = []
    for part in (1, 2):
        inputs = {"suites": "training.yaml", "shard": f"{part}/2", "wheel": wheel, "name": f"part-{part}"}
        job = Action(place / f"job-{part}", artifacts, repository, inputs)
        codes.append(job.run())
        assert job.summary.stat().st_size > 0, "a shard has no summary"
    assert sorted(codes) == [PASSED, FAILED], codes
    job = Action(place / "merge", artifacts, repository, {"merge": "part-*", "wheel": wheel, "name": "merged"})
    assert job.run() == FAILED
    assert "second" in job.summary.read_text()
    check_reports(artifacts / "merged", "the action's merge")
    both = Action(place / "both", artifacts, repository, {"suites": "a", "merge": "b", "name": "both"})
    assert both.run() == 2


def gitlab(wheel, place):
    template = yaml.safe_load((CHECKOUT / "packaging/gitlab-ci.yml").read_text())

    def job(name, directory, variables, after=()):
        """Runs a hidden job, with those that it extends, in a directory, `after` jobs that ended with these codes."""
        keys = {}
        while name:
            keys = {**template[name], **keys, "variables": {**template[name].get("variables", {}), **keys.get("variables", {})}}
            name = template[name].get("extends")
        assert not any(after) or keys.get("when") == "always", "GitLab skips a job that needs one that failed"
        values = {**keys["variables"], **variables, "CI_PROJECT_DIR": str(directory), "GITLAB_CI": "true"}
        values = {name: value.replace("$CI_PROJECT_DIR", str(directory)) for name, value in values.items()}
        code = run("\n".join(keys["before_script"] + keys["script"]), directory, values)
        kept = [path for path in keys["artifacts"]["paths"] if (directory / path).exists()]
        assert kept == keys["artifacts"]["paths"], kept
        return code, kept

    # All jobs unpack the artifacts of those that they need into one directory.
    merged = place / "merged"
    merged.mkdir()
    codes = []
    for index in ("1", "2"):
        directory = place / index
        directory.mkdir()
        (directory / "training.yaml").write_text(SUITE)
        variables = {"WHEEL": wheel, "SUITES": "training.yaml", "CI_NODE_INDEX": index, "CI_NODE_TOTAL": "2"}
        code, kept = job(".ftest", directory, variables)
        codes.append(code)
        for path in kept:
            if (directory / path).is_dir():
                shutil.copytree(directory / path, merged / path, dirs_exist_ok=True)
            else:
                shutil.copy(directory / path, merged / path)
    assert sorted(codes) == [PASSED, FAILED], codes
    assert job(".ftest-merge", merged, {"WHEEL": wheel}, codes)[0] == FAILED
    check_reports(merged, "the template's merge")


def main():
    wheel, place = sys.argv[1], pathlib.Path(sys.argv[2])
    for product in (github, gitlab):
        directory = place / product.__name__
        directory.mkdir()
        product(wheel, directory)


main()
