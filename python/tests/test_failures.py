"""Tests that do not pass, each for a reason of its own."""

import fcntl
import os
import select
import signal
import subprocess
import sys

import pytest

PATIENCE = 120


def test_a_rank_that_fails_is_shown_with_its_traceback_and_all_ranks_output(session):
    session.write(
        """
import pytest, sys

@pytest.mark.cluster(nodes=2, gpus_per_node=2)
def test_three(rank):
    print("hello from", rank)
    print("to stderr", file=sys.stderr)
    number = rank + 10
    assert number != 13

@pytest.mark.cluster
def test_all(rank):
    raise ValueError("everywhere")

@pytest.fixture
def broken(rank):
    assert rank == 0

@pytest.mark.cluster
def test_setup(broken):
    pass
"""
    )
    result = session.run()
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "ranks 0, 1, 2 passed; rank 3 failed",
            "rank 3:",
            ">       assert number != 13",
            "E       assert 13 != 13",
            "*Captured stdout rank 0 call*",
            "hello from 0",
            "*Captured stderr rank 3 call*",
            "ranks 0, 1 failed",
            "ranks 0, 1 (rank 0's is shown):",
            "E       ValueError: everywhere",
            "rank 1:",
            "in the setup:",
            "FAILED test_it.py::test_three - rank 3: assert 13 != 13",
            "FAILED test_it.py::test_all - ranks 0, 1: ValueError: everywhere",
        ]
    )
    assert result.stdout.str().count("E       ValueError: everywhere") == 1


def test_a_rank_that_hangs_is_ended_and_shows_where_it_was(session):
    session.write(
        """
import pytest, time

@pytest.mark.cluster(timeout="4s")
def test_sleeps(rank):
    print("begun", flush=True)
    if rank == 1:
        time.sleep(600)
"""
    )
    result = session.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["rank 0 passed; rank 1 ended early", "timeout", "rank 1:", "*in test_sleeps*", "*Captured stdout rank 1 call*", "begun"]
    )


def test_the_stack_of_a_crash_is_shown_once_and_without_pytest(session):
    session.write(
        """
import os, pytest, sys

@pytest.mark.cluster()
def test_crashes(rank):
    print("last words", file=sys.stderr, flush=True)
    if rank == 1:
        os.abort()
"""
    )
    result = session.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["rank 0 passed; rank 1 ended early", "Fatal Python error: Aborted", "*in test_crashes*", "*stderr rank 1 call*", "last words"]
    )
    text = result.stdout.str()
    assert text.count("Current thread") == 1 and "/_pytest/" not in text and "/pluggy/" not in text, text


def test_a_hang_between_ranks_is_explained(session, torch):
    session.write(
        """
import pytest, time

@pytest.mark.cluster(timeout={"kill": "60s", "idle": "3s"})
def test_hang(rank, device):
    import torch, torch.distributed as dist
    dist.init_process_group("nccl")
    dist.barrier()
    if rank == 0:
        dist.all_reduce(torch.ones(4, device=device))
        torch.cuda.synchronize()
    time.sleep(600)
"""
    )
    result = session.run()
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r".*rank 0 waits.* for rank 1"])


FINDING = """
import pytest

def together(rank, device):
    import torch, torch.distributed as dist
    dist.init_process_group("nccl")
    value = torch.ones(1024, device=device)
    work = dist.all_reduce(value, async_op=True)
    # Read before it is there.
    value.add(1)
    work.wait()
    torch.cuda.synchronize()
    dist.destroy_process_group()
"""


def test_a_finding_fails_a_test_that_every_rank_passes(session, torch):
    session.write(
        FINDING
        + """
@pytest.mark.cluster
def test_finding(rank, device):
    together(rank, device)

@pytest.mark.cluster(expect={"findings": ["race"]})
def test_expected(rank, device):
    together(rank, device)

@pytest.mark.xfail(reason="known", strict=True)
@pytest.mark.cluster
def test_known(rank, device):
    together(rank, device)
"""
    )
    result = session.run("-rx")
    result.assert_outcomes(failed=1, passed=1, xfailed=1)
    result.stdout.fnmatch_lines(["ranks 0, 1 passed", "finding", "  expected: no finding", "  got:      race: *"])


def test_a_gap_fails_a_test_and_is_never_an_expected_failure(session):
    session.write(
        """
import ctypes, pytest

def use():
    cuda = ctypes.CDLL("libcuda.so.1")
    assert cuda.cuInit(0) == 0
    memory = ctypes.c_void_p()
    assert cuda.cuImportExternalMemory(ctypes.byref(memory), None) == 801

@pytest.mark.cluster
def test_gap():
    use()

@pytest.mark.xfail
@pytest.mark.cluster
def test_known():
    use()

@pytest.mark.cluster(allow_gaps=["libcuda.cuImportExternalMemory"])
def test_allowed():
    use()
"""
    )
    result = session.run()
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(
        [
            "gap",
            "  got:      libcuda.cuImportExternalMemory used once by rank 0",
            "FAILED test_it.py::test_gap - gap: libcuda.cuImportExternalMemory*",
        ]
    )


def test_skips_and_expected_failures(session):
    session.write(
        """
import ctypes, pytest

def no_gpu():
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return True
    return cuda.cuInit(0) != 0

cluster = pytest.mark.cluster

@cluster
@pytest.mark.skip(reason="always")
def test_skip():
    assert False

@cluster
@pytest.mark.skipif(no_gpu(), reason="no GPU")
def test_gpu():
    pass

@cluster
@pytest.mark.skipif(not no_gpu(), reason="a GPU")
def test_no_gpu():
    assert False

@cluster
def test_skips_itself(rank):
    pytest.skip("not today")

@cluster
def test_disagree(rank):
    if rank == 1:
        pytest.skip("not here")

@cluster
@pytest.mark.xfail(reason="rank 1 is wrong", strict=True)
def test_known(rank):
    assert rank == 0

@cluster
@pytest.mark.xfail(raises=LookupError)
def test_raises(rank):
    if rank == 1:
        raise KeyError("x")

@cluster
@pytest.mark.xfail(raises=LookupError)
def test_raises_another(rank):
    raise ValueError("x")

@cluster
@pytest.mark.xfail(strict=True)
def test_passes():
    pass

@cluster
@pytest.mark.xfail
def test_xpass():
    pass

@cluster
def test_imperative(rank):
    pytest.xfail("cannot yet")

@cluster(requires=[{"command": "no-such-program"}])
def test_requires():
    assert False
"""
    )
    result = session.run("-rsx")
    result.assert_outcomes(skipped=4, passed=1, failed=3, xfailed=3, xpassed=1)
    result.stdout.fnmatch_lines(["rank 1 skipped the test and rank 0 did not: skip it on every rank or on none", "*XPASS(strict)*"])
    result.stdout.fnmatch_lines_random(["SKIPPED*not today", "SKIPPED*no-such-program*", "XFAIL*test_imperative - *cannot yet"])


def test_a_rank_that_leaves_in_the_middle_has_not_passed(session):
    session.write(
        """
import os, pytest

@pytest.mark.cluster
def test_leaves(rank):
    if rank == 1:
        os._exit(0)

@pytest.mark.cluster(expect={"exit": {"rank": {1: {"signal": "SIGKILL"}}}})
def test_killed(rank):
    if rank == 1:
        os.kill(os.getpid(), 9)
"""
    )
    result = session.run()
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["rank 1 ended with exit code 0 before its test was over"])


def test_a_wrong_mark_fails_its_test_alone_and_says_where(session):
    session.write(
        """
import pytest

@pytest.mark.cluster(gpus_per_nod=2)
def test_near():
    pass

@pytest.mark.cluster(timeot="3s")
def test_key():
    pass

@pytest.mark.cluster(profile="h1000")
def test_profile():
    pass

@pytest.mark.cluster(gpus_per_node=2, ranks=3)
def test_ranks():
    pass

@pytest.mark.cluster(matrix={})
def test_taken():
    pass

@pytest.mark.cluster
def test_right():
    pass

def test_outside(rank):
    pass

@pytest.mark.cluster
def test_too_early(cluster_report):
    pass
"""
    )
    result = session.run()
    result.assert_outcomes(passed=1, failed=6, errors=1)
    result.stdout.fnmatch_lines(
        [
            "test_it.py:4: @pytest.mark.cluster: unknown argument `gpus_per_nod`; did you mean `gpus_per_node`?",
            "test_it.py:8: @pytest.mark.cluster: unknown key `timeot`*did you mean `timeout`*",
            "test_it.py:12: @pytest.mark.cluster: unknown *h1000*",
            "test_it.py:16: @pytest.mark.cluster: 3 ranks on the cluster*which has 2 GPUs*",
            "test_it.py:20: @pytest.mark.cluster: it does not take `matrix`: use @pytest.mark.parametrize",
        ]
    )
    result.stdout.fnmatch_lines_random(
        ["*the fixture `rank` is for tests with @pytest.mark.cluster*", "*complete when the ranks have ended*"]
    )


def test_where_there_is_no_ftest_every_test_says_so(session):
    session.write("import pytest\n@pytest.mark.cluster\ndef test_it():\n    pass\n\ndef test_plain():\n    pass\n")
    session.write(
        "import ftest.programs as programs\nprograms.platform = type('P', (), {'machine': staticmethod(lambda: 'arm64')})\n",
        "conftest.py",
    )
    result = session.run()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*clusters are simulated on Linux on x86_64, and this is linux on arm64*"])


def test_an_ftest_that_is_killed_fails_the_tests_that_it_has_not_run(session):
    fake = session.path / "fake"
    fake.write_text("""#!/bin/sh
echo '{"event": "run_started", "run": "r"}'
read case
printf '{"event": "case_fini'
kill -KILL $$
""")
    fake.chmod(0o755)
    session.write(
        "import pytest\n@pytest.mark.cluster(ranks=1)\ndef test_a():\n    pass\n\n@pytest.mark.cluster(ranks=1)\ndef test_b():\n    pass\n"
    )
    session.write(f"import ftest.programs as programs\nprograms.find = lambda name: {str(fake)!r}\n", "conftest.py")
    result = session.run()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*fake ended with -9 before it had a result*"])


def test_debuggers_say_how_to_stop_in_a_rank(session):
    session.write("""
import pytest

@pytest.mark.cluster(gpus_per_node=2)
def test_wrong(rank):
    assert rank != 1

@pytest.mark.cluster(ranks=1)
def test_stops():
    breakpoint()

@pytest.mark.cluster(ranks=1)
def test_stops_by_name():
    import pdb; pdb.set_trace()
""")
    result = session.run("--pdb")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "--pdb does not stop in a rank*",
            "*ftest */test_it.py -E 'case(test_it.py-test_wrong)' --debug-rank 1",
            "*--debug-rank 0",
        ]
    )
    result.stdout.fnmatch_lines_random(["*breakpoint() in a rank, which has no terminal*"] * 2)
    assert "(Pdb)" not in result.stdout.str()


def test_nothing_is_left_when_pytest_is_killed(session):
    fifo = session.path / "fifo"
    os.mkfifo(fifo)
    session.write(
        """
import os, pytest, time

@pytest.mark.cluster(ranks=1)
def test_sleeps():
    with open("fifo", "w") as file:
        file.write(str(os.getpid()))
    time.sleep(600)
"""
    )
    command = [sys.executable, "-m", "pytest", *session.plugins]
    scratch = session.path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    process = subprocess.Popen(command, cwd=session.path, stdout=subprocess.DEVNULL, env=environment)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        begun, _, _ = select.select([reader], [], [], PATIENCE)
        assert begun, "the rank did not begin"
        rank = os.pidfd_open(int(os.read(reader, 32)))
    finally:
        os.close(reader)
        process.send_signal(signal.SIGKILL)
        process.wait()
    ended, _, _ = select.select([rank], [], [], PATIENCE)
    os.close(rank)
    assert ended, "the rank outlived pytest"

    # The next session removes its directory, and not one of a session that goes on.
    assert len(list(scratch.glob("ftest-pytest-*"))) == 1
    going_on = scratch / "ftest-pytest-going-on"
    going_on.mkdir()
    lock = os.open(going_on, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    other = session.path / "other"
    other.mkdir()
    (other / "test_other.py").write_text("import pytest\n@pytest.mark.cluster(ranks=1)\ndef test_passes():\n    pass\n")
    subprocess.run([*command, str(other)], cwd=session.path, stdout=subprocess.DEVNULL, env=environment, check=True)
    assert list(scratch.glob("ftest-pytest-*")) == [going_on]
    os.close(lock)


@pytest.mark.parametrize(
    "said, expected",
    [
        ("error: unknown key `x`\n --> /t/suite.yaml:5:7\n  |\n  = help: did you mean `y`?\n", [("unknown key `x`; did you mean `y`?", 5)]),
        ("error: a\n --> s.yaml:4:1\nerror: b\n   --> s.yaml:4:9\n", [("a", 4), ("b", 4)]),
        ("ftest: no room\n", []),
    ],
)
def test_mistakes_are_found_in_what_ftest_says(said, expected):
    from ftest.pytest.driver import mistakes

    assert list(mistakes(said)) == expected
