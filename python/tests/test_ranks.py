"""Tests that pass, and what they see on their ranks."""


def seen(session):
    return sorted(path.name for path in (session.path / "seen").iterdir())


NOTE = """
import os, pathlib, pytest

def note(*words):
    place = pathlib.Path(__file__).parent / "seen"
    place.mkdir(exist_ok=True)
    (place / "-".join(map(str, words))).touch()
"""


def test_a_test_runs_on_every_rank_and_has_one_result(session):
    session.write(
        NOTE
        + """
@pytest.mark.cluster(nodes=2, gpus_per_node=2, profile="h100")
def test_ranks(rank, world_size):
    note("ranks", rank, world_size, os.environ["LOCAL_RANK"], os.environ["NODE_RANK"])

@pytest.mark.cluster
def test_default(rank, world_size):
    note("default", rank, world_size)

@pytest.mark.cluster(gpus_per_node=4, ranks=1)
def test_fewer(rank, world_size):
    note("fewer", rank, world_size)

def test_plain():
    note("plain", os.environ.get("RANK"))
"""
    )
    session.run("--strict-markers").assert_outcomes(passed=4)
    assert seen(session) == sorted(
        ["ranks-0-4-0-0", "ranks-1-4-1-0", "ranks-2-4-0-1", "ranks-3-4-1-1", "default-0-2", "default-1-2", "fewer-0-1", "plain-None"]
    )


def test_parameters_classes_fixtures_and_conftest_as_in_plain_pytest(session):
    session.write("import pytest\n@pytest.fixture(scope='module')\ndef base(rank):\n    return 100 * rank\n", "tests/conftest.py")
    session.write("[pytest]\nmarkers = mine\npythonpath = lib\n", "pytest.ini")
    session.write("NAME = 'from lib'\n", "lib/mine.py")
    session.write(
        NOTE
        + """
import mine

pytestmark = [pytest.mark.cluster(gpus_per_node=2), pytest.mark.mine]

@pytest.mark.parametrize("n, text", [(1, "a b"), (2, "x/y")])
def test_parameters(base, n, text):
    note("n", n, base, len(text), mine.NAME.replace(" ", "_"))

class TestClass:
    @pytest.fixture(autouse=True)
    def before(self, rank):
        self.rank = rank

    @pytest.mark.cluster(nodes=1, gpus_per_node=1)
    def test_one(self, world_size):
        note("one", self.rank, world_size)

    def test_two(self, tmp_path, capsys, request):
        (tmp_path / "file").touch()
        print("captured")
        assert capsys.readouterr().out == "captured\\n"
        note("two", self.rank, request.config.getoption("verbose"), os.path.basename(os.getcwd()))
""",
        "tests/test_it.py",
    )
    session.run("-v").assert_outcomes(passed=4)
    here = session.path.name
    place = session.path / "tests" / "seen"
    assert sorted(path.name for path in place.iterdir()) == sorted(
        [
            "n-1-0-3-from_lib",
            "n-1-100-3-from_lib",
            "n-2-0-3-from_lib",
            "n-2-100-3-from_lib",
            "one-0-1",
            f"two-0-1-{here}",
            f"two-1-1-{here}",
        ]
    )


def test_unittest_classes_and_tests_that_start_their_own_processes(session):
    session.write(
        NOTE
        + """
import multiprocessing, unittest

@pytest.mark.cluster(gpus_per_node=2)
class Case(unittest.TestCase):
    def setUp(self):
        self.rank = int(os.environ["RANK"])

    def test_it(self):
        note("case", self.rank)

    @unittest.expectedFailure
    def test_expected(self):
        self.fail()

def child(number):
    note("child", number, os.environ["FTEST_CLUSTER"] != "")

@pytest.mark.cluster(gpus_per_node=2, ranks=None)
def test_own():
    assert "RANK" not in os.environ
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=child, args=(number,)) for number in range(2)]
    for one in children:
        one.start()
    for one in children:
        one.join()
        assert one.exitcode == 0
"""
    )
    session.run().assert_outcomes(passed=2, xfailed=1)
    assert seen(session) == ["case-0", "case-1", "child-0-True", "child-1-True"]


def test_ranks_train_together_and_the_report_is_checked_afterwards(session, torch):
    session.write(
        """
import pytest, warnings

def of_traffic(cluster_report, n):
    assert cluster_report["cluster"]["world_size"] == 4
    assert cluster_report["collectives"]["all_reduce"]["calls"] == n

def wrong(cluster_report, tmp_path):
    assert cluster_report["collectives"]["all_reduce"]["calls"] == 7

@pytest.fixture
def group(rank):
    import torch.distributed as dist
    dist.init_process_group("nccl")
    yield dist
    dist.destroy_process_group()

@pytest.mark.cluster(nodes=2, gpus_per_node=2, after=of_traffic)
@pytest.mark.parametrize("n", [1, 3])
def test_sum(group, rank, device, n):
    import sys, torch
    assert "ftest.pytest.warm" in sys.modules, "pytest was imported by each rank"
    assert device.index == torch.cuda.current_device() == rank % 2
    assert torch.cuda.get_device_name(device) == "NVIDIA H100 80GB HBM3"
    for _ in range(n):
        value = torch.full((8,), float(rank), device=device)
        group.all_reduce(value)
        assert value.tolist() == [6.0] * 8

@pytest.mark.cluster(gpus_per_node=2, after=wrong)
def test_wrong(group, device):
    import torch
    group.all_reduce(torch.ones(1, device=device))
    torch.cuda.synchronize()
    warnings.warn("from the ranks")
"""
    )
    result = session.run()
    result.assert_outcomes(passed=2, failed=1, warnings=1)
    result.stdout.fnmatch_lines(["*def wrong(cluster_report, tmp_path):", "E*assert 1 == 7", "*UserWarning: from the ranks"])
    for attempts in session.attempts().values():
        starts = attempts[-1]["starts"]
        assert starts == {"warm": len([process for process in attempts[-1]["processes"] if "rank" in process["role"]]), "cold": []}


def test_workers_of_xdist_and_the_report_of_all(session):
    __import__("pytest").importorskip("xdist")
    session.write(
        """
import pytest

@pytest.mark.cluster(gpus_per_node=2)
@pytest.mark.parametrize("n", range(4))
def test_many(rank, n):
    assert n != 2 or rank != 1

def test_plain():
    pass
"""
    )
    result = session.run("-n", "2", "--ftest-report", "out")
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*rank 1:*", "E*assert (2 != 2 or 1 != 1)*", "ftest: */out/index.html has the clusters of these tests"])
    cases = __import__("xml.etree.ElementTree").etree.ElementTree.parse(session.path / "out/junit.xml").iter("testcase")
    verdicts = {case.get("name"): [child.tag for child in case if child.tag in ("failure", "error", "skipped")] for case in cases}
    assert verdicts == {f"test_it.py-test_many-{n}": (["failure"] if n == 2 else []) for n in range(4)}
    assert "test_many" in (session.path / "out/index.html").read_text()


def test_options_of_the_session_reach_the_ranks(session):
    session.write("def pytest_addoption(parser):\n    parser.addoption('--model', default='small')\n", "conftest.py")
    session.write(
        """
import pytest

@pytest.mark.cluster
def test_option(request):
    assert request.config.getoption("--model") == "large"

@pytest.mark.cluster
def test_other():
    pass
"""
    )
    result = session.run("--model", "large", "-k", "option", "-x", "--maxfail=1", "--junitxml=out.xml", "-p", "no:doctest")
    result.assert_outcomes(passed=1, deselected=1)
    assert (session.path / "out.xml").read_text().count("<testcase ") == 1
    assert len(session.attempts()) == 1, "what was not selected did not run"
