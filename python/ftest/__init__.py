"""ftest for Python: the pytest plugin, `ftest.pytest`. The programs are beside the interpreter.

PYTEST_DONT_REWRITE: it has no assertions, and is imported before a rank's pytest.
"""
