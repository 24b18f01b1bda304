"""What ftest itself costs: `python3 benches/runner.py [--ftest PATH] [--jobs N] [--cases N]`.

Trivial cases (`true`), so that whatever is measured is the runner's: time per case beyond the bare start of the program,
1000 of them against 1000 empty tests under cargo-nextest, memory with many cases and with a gigabyte of output. Nothing is
judged that is not measured: without cargo-nextest that part is skipped, and says so. Ends with 1 when a bound is missed.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from bounds import Bounds

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Bounds of the project: ms per trivial case beyond the program itself, MB of ftest's memory.
CASE_MS, MEMORY_MB = 5.0, 150
# So many times more processor time may a case take among many than among few: the clock cannot tell, which other work stops.
GROWTH = 1.5


def suite(directory, name, cases):
    """A suite file with these lines as cases."""
    file = directory / f"{name}.yaml"
    file.write_text(f"ftest: 1\nsuite: {name}\ncases:\n" + "".join(f"- {case}\n" for case in cases))
    return file


def run(command, **options):
    """Seconds by the clock, peak memory (MB, without its children's) and processor seconds of a command that has to succeed."""
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options)
    stderr = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {process.returncode}: {stderr.decode()}")
    return time.monotonic() - started, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime


def bare(count):
    """Seconds that the program takes without a runner: started, waited for."""
    program = shutil.which("true")
    started = time.monotonic()
    for _ in range(count):
        os.waitpid(os.posix_spawn(program, ["true"], os.environ), 0)
    return time.monotonic() - started


def nextest(directory, count, jobs):
    """Seconds that cargo-nextest itself says its run of empty tests takes, building and listing not counted."""
    crate = directory / "empty"
    (crate / "src").mkdir(parents=True)
    (crate / "Cargo.toml").write_text('[package]\nname = "empty"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n')
    (crate / "src/lib.rs").write_text("".join(f"#[test]\nfn t{number}() {{}}\n" for number in range(count)))
    command = ["cargo", "nextest", "run", "--offline", "-j", str(jobs)]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(directory / "target"), "NO_COLOR": "1"}
    times = []
    for _ in range(4):
        done = subprocess.run(command, cwd=crate, env=environment, capture_output=True, text=True)
        found = re.search(rf"Summary \[ *([0-9.]+)s\] {count} tests run: {count} passed", done.stderr)
        if not found:
            sys.exit(f"cargo nextest: {done.stderr[-2000:]}")
        times.append(float(found[1]))
    # The first one built.
    return times[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ftest", default=ROOT / "target/release/ftest", type=pathlib.Path)
    parser.add_argument("--jobs", default=os.cpu_count(), type=int)
    parser.add_argument("--cases", default=1000, type=int)
    parser.add_argument("--many", default=10_000, type=int, help="cases of the measurement of memory")
    arguments = parser.parse_args()
    if not arguments.ftest.is_file():
        sys.exit(f"{arguments.ftest} is not there; `./ftest --version` builds it, or name one with --ftest")
    ftest, jobs, count = arguments.ftest.resolve(), arguments.jobs, arguments.cases
    bound = Bounds(58)
    with tempfile.TemporaryDirectory(prefix="ftest-bench-") as temporary:
        directory = pathlib.Path(temporary)
        # Nobody looks up the runs of a benchmark.
        options = {"cwd": directory, "env": {**os.environ, "XDG_STATE_HOME": temporary, "XDG_CACHE_HOME": temporary}}
        trivial = [f"{{id: c{number}, launch: {{argv: ['true']}}}}" for number in range(count)]
        file = suite(directory, "trivial", trivial)
        one = suite(directory, "one", trivial[:1])
        alone = min(bare(count) for _ in range(3))
        start = min(run([ftest, "run", one, "-j", "1"], **options)[0] for _ in range(3))
        serial = min(run([ftest, "run", file, "-j", "1"], **options)[0] for _ in range(3))
        print(f"{'a run of one case':<58} {start * 1e3:8.2f} ms")
        print(f"{'the program alone':<58} {alone / count * 1e3:8.2f} ms")
        bound("a trivial case beyond the program itself, one at a time", (serial - start - alone) / count * 1e3, CASE_MS, "ms")
        ours = [run([ftest, "run", file, "-j", str(jobs)], **options) for _ in range(3)]
        few = min(processor for _, _, processor in ours) / count
        ours = [seconds for seconds, _, _ in ours]
        junit = run([ftest, "run", file, "-j", str(jobs), "--junit", directory / "out.xml"], **options)[0]
        if shutil.which("cargo-nextest"):
            theirs = nextest(directory, count, jobs)
            bound(f"{count} trivial cases, {jobs} at a time", min(ours), min(theirs), "s")
            bound("the same with a JUnit file", junit, min(theirs), "s")
        else:
            print(f"{count} trivial cases, {jobs} at a time: {min(ours):.2f} s; with a JUnit file: {junit:.2f} s")
            print("skipped: the comparison, for there is no cargo-nextest (cargo install cargo-nextest --locked)")
        many = suite(directory, "many", [f"{{id: c{number}, launch: {{argv: ['true']}}}}" for number in range(arguments.many)])
        seconds, memory, processor = run([ftest, "run", many, "-j", str(jobs), "--junit", directory / "many.xml"], **options)
        bound(f"memory with {arguments.many} cases ({seconds:.0f} s)", memory, MEMORY_MB, "MB")
        each = processor / arguments.many
        print(f"processor time of a case among {count}: {few * 1e3:.2f} ms, among {arguments.many}: {each * 1e3:.2f} ms")
        bound("how many times more a case takes among many", each / few, GROWTH, "")
        flood = "{id: flood, timeout: 10m, launch: {argv: [sh, -c, 'head -c 500000000 /dev/zero & head -c 500000000 /dev/zero >&2; wait']}}"
        seconds, memory, _ = run([ftest, "run", suite(directory, "flood", [flood])], **options)
        bound(f"memory with 1 GB of output ({seconds:.1f} s)", memory, MEMORY_MB, "MB")
    if bound.missed:
        sys.exit("missed: " + "; ".join(bound.missed))


if __name__ == "__main__":
    main()
