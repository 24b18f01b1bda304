"""PyTorch's own bases for tests of many processes, unchanged, and collection under the shim."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PATIENCE = 500


def test_tests_on_pytorchs_own_bases(session, pytester, monkeypatch, torch):
    if find_spec("expecttest") is None:
        pytest.skip("PyTorch's own tests need expecttest")
    session.write(
        """
import os

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.common_distributed import MultiProcessTestCase, requires_nccl, skip_if_lt_x_gpu
from torch.testing._internal.distributed._tensor.common_dtensor import DTensorTestBase, with_comms

pytestmark = pytest.mark.cluster(gpus_per_node=2, ranks=None, timeout="8m")


class TestCollectives(MultiProcessTestCase):
    @property
    def world_size(self):
        return 2

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def group(self):
        torch.cuda.set_device(self.rank)
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("nccl", store=store, rank=self.rank, world_size=self.world_size)

    @requires_nccl()
    @skip_if_lt_x_gpu(2)
    def test_sum(self):
        self.group()
        value = torch.full((4,), self.rank + 1.0, device="cuda")
        dist.all_reduce(value)
        self.assertEqual(value, torch.full((4,), 3.0))

    @requires_nccl()
    @skip_if_lt_x_gpu(2)
    def test_wrong(self):
        self.group()
        self.assertEqual(self.rank, 0, "rank 1 is not rank 0")


class TestSharding(DTensorTestBase):
    @property
    def world_size(self):
        return 2

    @with_comms
    def test_gather(self):
        self.assertEqual((self.device_type, self.backend), ("cuda", "nccl"))
        mesh = init_device_mesh("cuda", (2,))
        whole = torch.arange(8.0, device="cuda").reshape(4, 2)
        sharded = distribute_tensor(whole, mesh, [Shard(0)])
        self.assertEqual(sharded.to_local().shape, (2, 2))
        self.assertEqual(sharded.redistribute(mesh, [Replicate()]).to_local(), whole)
"""
    )
    # Where this file is collected, PyTorch is imported: without NVIDIA's libraries that takes the shim.
    monkeypatch.setenv("FTEST_PYTHON", sys.executable)
    result = pytester.run(fgpu(), sys.executable, "-m", "pytest", *session.plugins, timeout=PATIENCE)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*rank 1 is not rank 0*"])


def fgpu():
    from ftest.pytest.driver import program

    found = Path(program()).with_name("fgpu")
    assert os.access(found, os.X_OK), found
    return found


def test_a_file_of_pytest_is_a_suite(session, pytester, monkeypatch):
    monkeypatch.setenv("FTEST_PYTHON", sys.executable)
    session.write(
        """
import pytest

@pytest.mark.cluster
@pytest.mark.parametrize("n", [1, 2])
def test_number(rank, n):
    assert n == 1 or rank == 0, "only the first"

@pytest.mark.cluster(gpus_per_node=4, tags=["slow"])
def test_skips_itself():
    pytest.skip("not today")

@pytest.mark.cluster
@pytest.mark.skip(reason="never")
def test_never():
    assert False

@pytest.mark.cluster
@pytest.mark.xfail(reason="known")
def test_known():
    assert False

def test_plain():
    assert False
""",
        "tests/test_dist.py",
    )
    from ftest.pytest.driver import program

    listed = pytester.run(program(), "tests/test_dist.py", "--list", timeout=PATIENCE)
    assert listed.stdout.lines[:4] == [
        f"test_dist/tests-test_dist.py-{name}" for name in ("test_number-1", "test_number-2", "test_skips_itself", "test_known")
    ]
    ran = pytester.run(program(), "tests/test_dist.py", "--no-fail-fast", timeout=PATIENCE)
    assert ran.ret == 1
    ran.stdout.fnmatch_lines_random(["*AssertionError: only the first*", "*code 77*", "4 cases: 2 passed, 2 failed*"])
    assert pytester.run(program(), "tests/test_dist.py", "-E", "case(*test_number-1)", timeout=PATIENCE).ret == 0


def test_a_file_without_marks_or_with_wrong_ones_is_an_error(session, pytester, monkeypatch):
    monkeypatch.setenv("FTEST_PYTHON", sys.executable)
    session.write("def test_plain():\n    pass\n", "test_plain.py")
    session.write("import pytest\n@pytest.mark.cluster(nodes=0)\ndef test_it():\n    pass\n", "test_wrong.py")
    session.write("import no_such_module\n", "test_broken.py")
    from ftest.pytest.driver import program

    for file, message in [
        ("test_plain.py", "*no test has @pytest.mark.cluster*"),
        ("test_wrong.py", "*test_wrong.py:2: @pytest.mark.cluster: `nodes` is a whole number from 1, not 0*"),
        ("test_broken.py", "*No module named 'no_such_module'*"),
    ]:
        result = pytester.run(program(), file, timeout=PATIENCE)
        assert result.ret == 2
        result.stderr.fnmatch_lines([message])
