"""The pytest plugin: test functions with `@pytest.mark.cluster` run on every rank of a simulated cluster.

pytest itself (`plugin`) does not run these tests. It turns each into a case (`marks`), has one `ftest run --drive` run them when
it is their turn (`driver`), and turns the outcome into the test's result (`verdict`, `failure`). In every rank, another pytest
runs the one test, with the same options, conftest files and fixtures (`rank`).
"""
