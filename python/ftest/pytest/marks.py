"""Turns `@pytest.mark.cluster(...)` into a case of a suite. Checks made by the suite language are left to it."""

import dataclasses
import difflib
import os
import re

#: Arguments that are not keys of a case.
OWN = ("nodes", "gpus_per_node", "profile", "ranks", "warm", "after")
# Keys of a case that the plugin sets, or for which pytest has its own mechanism.
TAKEN = {
    "id": "the id comes from the test's name",
    "title": "the title is the test's id",
    "launch": "the test itself is what is started; write ranks=N for another number of ranks",
    "cwd": "ranks run where pytest runs",
    "python": "ranks run in the Python that runs pytest",
    "matrix": "use @pytest.mark.parametrize",
    "uses": "use a pytest fixture; each rank sets it up",
    "xfail": "use @pytest.mark.xfail",
    "coordinator": "it has one always",
}


class Mistake(Exception):
    """A mark that cannot be used; the message says why and what to do."""


@dataclasses.dataclass
class Marked:
    """A test with the mark."""

    #: In the suite.
    id: str
    #: As the suite language has it, without what is started.
    case: dict
    #: None: one process, which starts its own.
    ranks: "int | None"
    #: True or False where the mark says so.
    warm: "bool | None"
    #: Called in pytest's own process when the ranks have ended.
    after: object


def read(item, taken):
    """The case of `item`, with an id that is not in `taken`.

    Raises Mistake."""
    arguments = {}
    # The closest comes first.
    for mark in item.iter_markers("cluster"):
        if mark.args:
            raise Mistake("it takes arguments by name only: @pytest.mark.cluster(nodes=1, gpus_per_node=2)")
        arguments = {**mark.kwargs, **arguments}
    for name in arguments:
        if name in TAKEN:
            raise Mistake(f"it does not take `{name}`: {TAKEN[name]}")
        near = difflib.get_close_matches(name, OWN, n=1, cutoff=0.8)
        if near and name not in OWN:
            raise Mistake(f"unknown argument `{name}`; did you mean `{near[0]}`?")
    if "snapshot" in (arguments.get("expect") or {}):
        raise Mistake("snapshots belong to suites; compare the `cluster_report` in a function given as `after`")
    after, warm = arguments.pop("after", None), arguments.pop("warm", None)
    if after is not None and not callable(after):
        raise Mistake(f"`after` is a function that checks what the ranks did, not {after!r}")
    if warm not in (None, True, False):
        raise Mistake(f"`warm` is True or False, not {warm!r}")
    directory = os.path.dirname(item.path)
    cluster, world = cluster_of(arguments, directory)
    ranks = arguments.pop("ranks", world)
    if ranks is not None and not is_number(ranks):
        raise Mistake(f"`ranks` is their number, or None for one process that starts its own, not {ranks!r}")
    identifier = id_of(item.nodeid, taken)
    return Marked(identifier, {"title": item.nodeid, "cluster": cluster, **arguments}, ranks, warm, after)


def cluster_of(arguments, directory):
    """The cluster that the arguments describe, and its number of GPUs, if known. Removes these arguments."""
    given = arguments.pop("cluster", None)
    if given is None:
        nodes, gpus = arguments.pop("nodes", 1), arguments.pop("gpus_per_node", 2)
        for name, value in (("nodes", nodes), ("gpus_per_node", gpus)):
            if not is_number(value):
                raise Mistake(f"`{name}` is a whole number from 1, not {value!r}")
        profile = absolute(arguments.pop("profile", "h100"), directory)
        return {"nodes": nodes, "gpus_per_node": gpus, "profile": profile}, nodes * gpus
    also = [name for name in ("nodes", "gpus_per_node", "profile") if name in arguments]
    if also:
        raise Mistake(f"`cluster` describes the whole cluster: take `{also[0]}` away, or put it there")
    if isinstance(given, (str, os.PathLike)):
        if "ranks" not in arguments:
            raise Mistake("with a cluster file, say how many ranks run the test: `ranks=N`")
        return {"file": os.path.join(directory, given)}, None
    if not isinstance(given, dict):
        raise Mistake(f"`cluster` is the path of a cluster file, or its contents as a dict, not {given!r}")
    if "profile" in given:
        given = {**given, "profile": absolute(given["profile"], directory)}
    nodes = given.get("nodes")
    if is_number(nodes) and is_number(given.get("gpus_per_node")):
        return given, nodes * given["gpus_per_node"]
    if isinstance(nodes, list) and all(isinstance(node, dict) for node in nodes):
        return given, sum(len(node.get("ranks") or []) for node in nodes)
    if "ranks" not in arguments:
        raise Mistake("how many ranks the cluster has is not clear from `cluster`: add `ranks=N`")
    return given, None


def is_number(value):
    return type(value) is int and value >= 1


def absolute(profile, directory):
    """A profile's file is relative to the test's directory; an id stays unchanged."""
    if isinstance(profile, (str, os.PathLike)) and (os.sep in str(profile) or str(profile).endswith(".yaml")):
        return os.path.join(directory, profile)
    return profile


def id_of(nodeid, taken):
    """An id that the suite language allows."""
    plain = re.sub(r"[^A-Za-z0-9_.]+", "-", nodeid).strip("-")[-100:].lstrip("-.") or "test"
    identifier, number = plain, 1
    while identifier in taken:
        number += 1
        identifier = f"{plain}-{number}"
    return identifier
