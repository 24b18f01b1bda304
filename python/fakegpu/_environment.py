"""The environment of processes with simulated GPUs. `fgpu` determines it; this module queries `fgpu` and passes it
on."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

from ftest import programs

#: The variables that say which devices there are.
DEVICES = ("FAKEGPU_PROFILES", "FAKEGPU_PROFILE", "FAKEGPU_DEVICE_COUNT", "FTEST_CLUSTER")
#: By which processes are one machine: the devices' memory is theirs together.
MACHINE = "FTEST_GPUS"
PYTHON = "FTEST_PYTHON"

#: Files in memory, by process id and devices.
_machines = {}


@dataclasses.dataclass(frozen=True)
class Plan:
    """What `fgpu` would pass to a command."""

    #: Variables to set, or to remove (None).
    environment: dict
    #: libfakegpu.so; None in passthrough.
    shim: pathlib.Path | None
    #: What a running process loads in place of NVIDIA's libraries: paths.
    libraries: tuple

    def applied_to(self, base):
        """`base` with these changes, as a dict. If it names no machine, the processes that get it form a new one."""
        changed = {name: value for name, value in {**base, **self.environment}.items() if value is not None}
        if (self.shim is not None or self.libraries) and not changed.get(MACHINE):
            changed[MACHINE] = machine(changed)
        return changed


def plan(base, arguments):
    """The plan for processes that would otherwise have the environment `base`. `arguments` holds the given arguments of `env`.

    Raises ValueError for a wrong argument or variable, FileNotFoundError if a part of ftest is missing, OSError if `fgpu`
    cannot do its work."""
    try:
        command = [programs.find("fgpu"), "--print-environment"]
    except programs.Missing as missing:
        raise FileNotFoundError(str(missing)) from None
    options = {f"--{name.replace('_', '-')}": name for name in arguments}
    for option, name in options.items():
        value = arguments[name]
        if name == "devices" and not isinstance(value, str):
            value = ",".join(value)
        command.append(f"{option}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=dict(base))
    said = answer.stderr.strip().removeprefix("fgpu: ")
    if answer.returncode != 0:
        # `--device-count=0: expected ...` is about the argument `device_count`.
        option, equals, rest = said.partition("=")
        said = options.get(option, option) + equals + rest
        if "not found; looked for" in said:
            raise FileNotFoundError(said)
        raise (ValueError if answer.returncode == 2 else OSError)(said)
    if said:
        print(said, file=sys.stderr)
    found = json.loads(answer.stdout)
    return Plan(found["environment"], found["shim"] and pathlib.Path(found["shim"]), tuple(found["libraries"]))


def given(**arguments):
    """Those that are not None."""
    return {name: value for name, value in arguments.items() if value is not None}


def for_python(base):
    """`base`, with this interpreter as the Python to use unless `base` names another."""
    return {**base, PYTHON: base.get(PYTHON) or sys.executable}


def machine(environment):
    """An in-memory file that lives as long as this process, for all processes with these devices that it starts."""
    key = (os.getpid(), *(environment.get(name) for name in DEVICES))
    if key not in _machines:
        # Not closed when this process becomes another program, because that program is part of the machine.
        _machines[key] = f"/proc/{os.getpid()}/fd/{os.memfd_create('fakegpu-machine', 0)}"
    return _machines[key]


def env(
    *,
    build_dir=None,
    lib_dir=None,
    mode=None,
    oom_policy=None,
    unsupported_api=None,
    dist_mode=None,
    cluster_config=None,
    coordinator_addr=None,
    coordinator_transport=None,
    profile=None,
    device_count=None,
    devices=None,
    base_env=None,
):
    """The environment of a process with simulated GPUs: `base_env`, or this process's, with what `fgpu` sets. Arguments are fgpu's
    options; `devices` may be a list (`["a100:2", "h100"]`).

    Raises ValueError, FileNotFoundError and OSError as `plan`."""
    arguments = given(
        build_dir=build_dir,
        lib_dir=lib_dir,
        mode=mode,
        oom_policy=oom_policy,
        unsupported_api=unsupported_api,
        dist_mode=dist_mode,
        cluster_config=cluster_config,
        coordinator_addr=coordinator_addr,
        coordinator_transport=coordinator_transport,
        profile=profile,
        device_count=device_count,
        devices=devices,
    )
    base = os.environ if base_env is None else base_env
    return plan(for_python(base), arguments).applied_to(base)


def run(cmd, *, check=True, **options):
    """Runs a command with simulated GPUs, and returns its subprocess.CompletedProcess. Takes the arguments of `env` and
    of subprocess.run; `text` is True by default.

    Raises subprocess.CalledProcessError if the command fails, unless `check` is False."""
    names = env.__kwdefaults__.keys() - {"base_env"}
    ours = {name: options.pop(name) for name in names & options.keys()}
    environment = env(**ours, base_env=options.pop("env", None))
    return subprocess.run(list(cmd), check=check, env=environment, **{"text": True, **options})


def library_dir(*, build_dir=None, lib_dir=None):
    """The directory of libfakegpu.so.

    Raises FileNotFoundError."""
    return plan(for_python(os.environ), given(build_dir=build_dir, lib_dir=lib_dir, mode="simulate")).shim.parent


def version():
    """ftest's version."""
    answer = subprocess.run([programs.find("fgpu"), "--version"], capture_output=True, text=True, check=True)
    return answer.stdout.split()[1]
