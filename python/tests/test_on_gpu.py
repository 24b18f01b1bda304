"""The recorder of benches/on_gpu with PyTorch: its memory statistics are the same in every run, and one that differs is named."""

import copy
import json
import os
import pathlib
import subprocess
import sys

from ftest import programs

RUN = pathlib.Path(__file__).parents[2] / "benches/on_gpu/run"
#: Seconds, on a machine where other tests run.
PATIENCE = 300


def record(path):
    """A record behind `fgpu`."""
    words = [programs.find("fgpu"), "--profile", "h100", "--device-count", "1", sys.executable, RUN, "record"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FAKEGPU_")}
    done = subprocess.run(
        [*words, "--areas", "torch_memory", "--output", path], capture_output=True, text=True, timeout=PATIENCE, env=environment
    )
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text())


def compare(left, right):
    done = subprocess.run(
        [sys.executable, RUN, "compare", "--json", left, right], capture_output=True, text=True, timeout=PATIENCE
    )
    return done.returncode, json.loads(done.stdout)


def test_a_statistic_that_differs_is_named(tmp_path):
    first, second = record(tmp_path / "first.json"), record(tmp_path / "second.json")
    assert first["source"]["kind"] == "simulation"
    assert compare(tmp_path / "first.json", tmp_path / "second.json") == (0, {"differences": [], "not_compared": []})

    probes = first["areas"]["torch_memory"]["probes"]
    assert {name.split(":")[0] for name in probes} == {"blocks", "perceptron", "transformer"}
    assert not [name for name, answer in probes.items() if "out" not in answer], probes
    # PyTorch's own rules: 512 bytes is the least block, a segment of the small pool has 2 MiB, one of 1 to 10 MiB takes 20 MiB.
    blocks = probes["blocks: holds 1 blocks"]["out"]
    assert (blocks["allocated_bytes.all.current"], blocks["reserved_bytes.small_pool.current"]) == (512, 2 << 20)
    assert probes["blocks: holds 6 blocks"]["out"]["reserved_bytes.large_pool.current"] == 20 << 20
    assert probes["blocks: out of memory"]["out"]["num_ooms"] == 1
    # Weights and biases of the perceptron, 32 bits each.
    weights = 4 * (1024 * 4096 + 4096 + 4096 * 10 + 10)
    assert probes["perceptron: model"]["out"]["requested_bytes.all.current"] == weights

    changed = copy.deepcopy(second)
    statistics = changed["areas"]["torch_memory"]["probes"]["transformer: step 1: backward"]["out"]
    statistics["reserved_bytes.all.peak"] += 2 << 20
    (tmp_path / "changed.json").write_text(json.dumps(changed))
    code, found = compare(tmp_path / "first.json", tmp_path / "changed.json")
    assert code == 1
    [difference] = found["differences"]
    assert difference["probe"] == "torch_memory: transformer: step 1: backward"
    assert difference["field"] == "out.reserved_bytes.all.peak"
    assert difference["right"] - difference["left"] == 2 << 20
