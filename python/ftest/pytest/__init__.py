"""The pytest plugin: test functions with `@pytest.mark.cluster` run on every rank of a simulated cluster.

pytest itself (`plugin`) runs no such test. It makes a case of each (`marks`), has one `ftest run --drive` run them as their
turn comes (`driver`), and turns what came back into the test's result (`verdict`, `failure`). In every rank another pytest runs the
one test, with the same options, conftest files and fixtures (`rank`).
"""
