"""What the watcher of `ftest exec --preflight` makes of the allocator's history."""

import importlib.util
import pathlib

import pytest

FILE = pathlib.Path(__file__).parents[2] / "commands/src/preflight/watch.py"


@pytest.fixture(scope="module")
def watcher():
    spec = importlib.util.spec_from_file_location("watcher", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def event(action, address, size, line=None):
    frames = [] if line is None else [{"filename": "/home/me/train.py", "line": line, "name": "main"}]
    return {"action": action, "addr": address, "size": size, "frames": frames}


def block(address, size, line):
    return {"address": address, "requested_size": size, "frames": event("alloc", address, size, line)["frames"]}


def lines(peak_and_live):
    peak, live = peak_and_live
    return peak, sorted((size, source["frames"][0]["line"] if source else 0) for size, source in live.values())


def test_what_was_held_at_the_peak_comes_from_what_is_held_and_the_events_backwards(watcher):
    events = [
        event("alloc", 1, 100, 1),
        event("alloc", 2, 50, 2),
        event("segment_alloc", 9, 2 << 20),
        event("alloc", 3, 70, 3),
        # The peak: 220.
        event("free_requested", 2, 50),
        event("free_completed", 2, 50),
        event("alloc", 2, 30, 4),
        event("free_requested", 3, 70),
    ]
    now = [block(1, 100, 1), block(2, 30, 4)]
    assert lines(watcher.live_at_peak(now, events)) == (4, [(50, 2), (70, 3), (100, 1)])
    # The older events are gone: the sizes are there, and the line of what was freed since is not.
    assert lines(watcher.live_at_peak(now, events[4:])) == (0, [(50, 0), (70, 0), (100, 1)])
    assert lines(watcher.live_at_peak(now, [])) == (0, [(30, 4), (100, 1)])
    assert watcher.live_at_peak([], []) == (0, {})


def test_the_line_is_the_innermost_of_the_program(watcher, tmp_path):
    class Torch:
        __file__ = "/src/torch/__init__.py"

    whose = watcher.Owner(Torch)
    frame = lambda file, line: {"filename": file, "line": line, "name": "f"}
    frames = [
        frame("<frozen part>", 1),
        frame("/src/torch/nn/functional.py", 2),
        frame("/venv/lib/python3.11/site-packages/lib/model.py", 3),
        frame("/home/me/model.py", 4),
        frame("/home/me/train.py", 5),
    ]
    assert whose.site({"frames": frames})["line"] == 4
    assert whose.site({"frames": frames[:3]})["line"] == 2, "the innermost, where none is the program's"
    assert whose.site({"frames": []}) == whose.site(None) == {"file": "", "line": 0, "function": "", "backward": False}
    forward = ['  File "/home/me/train.py", line 8, in main\n    step()\n', '  File "/home/me/model.py", line 6, in forward\n    x * y\n']
    forward.append('  File "/src/torch/nn/functional.py", line 2, in relu\n    relu(x)\n')
    site = {"file": "/home/me/model.py", "line": 6, "function": "forward", "backward": True}
    assert whose.site({"frames": frames[:2], "forward_frames": forward}) == site


def test_lines_are_added_up_and_the_largest_come_first(watcher):
    class Owner:
        def site(self, frames):
            return {"file": "a.py", "line": frames, "function": "f"}

    found = watcher.by_line([(10, 1), (30, 2), (25, 1)], Owner())
    assert [(line["line"], line["bytes"], line["count"], line["largest"]) for line in found] == [(1, 35, 2, 25), (2, 30, 1, 30)]
