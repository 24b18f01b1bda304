# Stands in for torch.distributed.run: starts workers as torchrun's SubprocessHandler does, with streams in files, and waits.
import atexit
import os
import subprocess
import sys
import threading


def main():
    end = sys.argv.index("--")
    options = dict(word[2:].split("=", 1) for word in sys.argv[1:end])
    words = sys.argv[end + 1 :]
    # torchrun's agent has threads and sockets by the time it starts its workers.
    stop = threading.Event()
    threading.Thread(target=stop.wait, daemon=True).start()
    workers = []
    for rank in range(int(options["nproc-per-node"])):
        place = os.path.join(options["log-dir"], "none_x", "attempt_0", str(rank))
        os.makedirs(place)
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), TORCHELASTIC_RUN_ID="none")
        with open(place + "/stdout.log", "w") as stdout, open(place + "/stderr.log", "w") as stderr:
            command = [sys.executable, "-u", *words]
            workers.append(subprocess.Popen(command, env=environment, stdout=stdout, stderr=stderr, start_new_session=True))
    failed = 0
    for rank, worker in enumerate(workers):
        code = worker.wait()
        if code != 0:
            failed = 1
            sys.stderr.write("  rank      : %d (local_rank: %d)\n  exitcode  : %d (pid: x)\n" % (rank, rank, code))
    # Nothing else is this process's child for whoever waits for any.
    stop.set()
    atexit.register(print, "the launcher's last word", file=sys.stderr)
    if failed:
        # As torchrun does.
        raise ChildFailedError("a rank failed")


class ChildFailedError(Exception):
    pass


if __name__ == "__main__":
    main()
