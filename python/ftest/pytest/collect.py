"""`python -m ftest.pytest.collect FILE SUITE`: writes the marked tests of a file as a suite, for `ftest FILE`."""

import sys
from importlib.metadata import entry_points

import pytest


def main(file, suite):
    found = [entry.value for entry in entry_points(group="pytest11")]
    plugin = [] if "ftest.pytest.plugin" in found else ["-p", "ftest.pytest.plugin"]
    return pytest.main([*plugin, "-q", "--ftest-suite", suite, file])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
