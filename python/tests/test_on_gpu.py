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
    done = subprocess.run([sys.executable, RUN, "compare", "--json", left, right], capture_output=True, text=True, timeout=PATIENCE)
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


def test_what_another_version_of_pytorch_says_is_not_compared(tmp_path):
    head = {"format": "gpu_record", "version": 1}
    for name, version, value in (("left", "2.15.0", 512), ("right", "2.14.0", 1024)):
        areas = {"torch_memory": {"probes": {"blocks": {"out": {"allocated": value}}}}}
        (tmp_path / name).write_text(json.dumps({**head, "machine": {"torch": version}, "areas": areas}))
    assert compare(tmp_path / "left", tmp_path / "right") == (
        0,
        {"differences": [], "not_compared": [{"what": "torch_memory", "left": "PyTorch 2.15.0", "right": "PyTorch 2.14.0"}]},
    )


def test_the_recorded_hardware_agrees_also_about_pytorch():
    done = subprocess.run([sys.executable, RUN, "check"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "records checked" in done.stdout


def test_the_whole_command_on_a_machine_that_says_it_is_hardware(tmp_path):
    """All steps after the record, with one of the simulation in the place of hardware's."""
    words = [programs.find("fgpu"), "--profile", "h100", "--device-count", "1", "--dist-mode", "simulate", sys.executable, RUN, "record"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FAKEGPU_")}
    made = tmp_path / "made.json"
    subprocess.run([*words, "--areas", "limits,allocation", "--output", made], check=True, timeout=PATIENCE, env=environment)
    claimed = json.loads(made.read_text())
    claimed["source"] = {"kind": "hardware", "evidence": ["a test"]}
    claimed["areas"]["limits"]["probes"]["limit stack"]["out"]["value"] = 2048
    made.write_text(json.dumps(claimed))
    command = """
import importlib.machinery, importlib.util, json, sys
loader = importlib.machinery.SourceFileLoader("run", sys.argv[1])
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
loader.exec_module(run)
made = json.load(open(sys.argv[2]))
run.records.make = lambda areas, seconds: made
sys.argv = ["run", "--output", sys.argv[3]]
sys.exit(run.main())
"""
    output = tmp_path / "h100.json"
    done = subprocess.run(
        [sys.executable, "-B", "-c", command, RUN, made, output], capture_output=True, text=True, timeout=PATIENCE, env=environment
    )
    assert done.returncode == 1, done.stderr
    assert "limits: limit stack\n  out.value\n    hardware: 2048\n    ours: 1024\n" in done.stdout
    assert json.loads(output.read_text())["areas"] == claimed["areas"]
    [difference] = json.loads((tmp_path / "h100.differences.json").read_text())["differences"]
    assert difference == {"probe": "limits: limit stack", "field": "out.value", "hardware": 2048, "ours": 1024}
    modes = json.loads((tmp_path / "h100.modes.json").read_text())
    assert modes["simulate"]["source"]["kind"] == "simulation"
    assert "no GPU answers" in modes["passthrough"]["refused"]
    assert {name for name in modes if name.startswith("hybrid, ")} == {
        "hybrid, clamp",
        "hybrid, managed",
        "hybrid, mapped_host",
        "hybrid, spill_cpu",
    }
