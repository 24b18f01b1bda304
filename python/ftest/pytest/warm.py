"""Imported in the process that ranks are forked from: what every rank's pytest imports, except plugins, whose assertions pytest
rewrites when it imports them itself.

PYTEST_DONT_REWRITE: it has no assertions.
"""

import importlib

from _pytest.config import default_plugins

from . import rank  # noqa: F401

for name in default_plugins:
    importlib.import_module("_pytest." + name)
