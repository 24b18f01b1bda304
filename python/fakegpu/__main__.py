"""`python -m fakegpu [options] CMD...`: `fgpu` with this Python. FakeGPU's subcommands are run, or refused with advice on what to
do instead."""

import os
import sys

from ftest import programs

from . import _environment

ESTIMATE = "ftest runs programs and does not estimate them"
REFUSED = {
    "analyze-repo": ESTIMATE,
    "bandwidth": "`ftest bench` times and checks collectives, also on a cluster file and over tcp",
    "capabilities": "every run lists the gaps it hit, and `ftest replay` prints the last run again; `ftest docs gaps` says what is not executed",
    "demo": "`ftest docs tutorial` goes from nothing to a distributed bug found and fixed",
    "estimate-llm": ESTIMATE,
    "estimate-roofline": ESTIMATE,
    "preflight": "`ftest exec --preflight -- CMD` says on which GPUs a command fits",
    "validate": "write a suite, and run it with `ftest SUITE`: `ftest docs suites`",
    "workspace-profiles": ESTIMATE,
}


def main(words=None):
    words = sys.argv[1:] if words is None else words
    try:
        program, *arguments = command_of(words)
        file = programs.find(program)
    except (Refused, programs.Missing) as trouble:
        print(f"fakegpu: {trouble}", file=sys.stderr)
        return 2 if isinstance(trouble, Refused) else 3
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execve(file, [program, *arguments], _environment.for_python(os.environ))


class Refused(Exception):
    """A command that ftest does not have; the message says what to do."""


def command_of(words):
    """The program to execute, and its arguments. Raises Refused."""
    first, rest = (words[0], words[1:]) if words else ("", [])
    if first in REFUSED:
        raise Refused(f"ftest has no `{first}`: {REFUSED[first]}")
    if first == "doctor":
        if rest == ["--list-profiles"]:
            return ["ftest", "profiles"]
        if rest:
            raise Refused("`doctor` takes no options here: `ftest doctor` checks this machine, `ftest profiles` lists the profiles")
        return ["ftest", "doctor"]
    if first == "coordinator":
        return ["fakegpu-coordinator", *coordinator(rest)]
    return ["fgpu", *words]


def coordinator(words):
    """Translates options of FakeGPU's `coordinator` into those of fakegpu-coordinator."""
    options = []
    for word in words:
        name, equals, value = word.partition("=")
        if name in ("--ping", "--shutdown"):
            raise Refused(f"`coordinator {name}`: the coordinator prints a line when ranks can connect, and shuts down cleanly on SIGTERM")
        if name in ("--build-dir", "--lib-dir"):
            raise Refused(f"`coordinator {name}`: the coordinator is part of ftest's installation")
        options.append(f"--address{equals}{value}" if name == "--listen" else word)
    return options


if __name__ == "__main__":
    sys.exit(main())
