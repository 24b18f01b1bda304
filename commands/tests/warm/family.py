# Starts Python processes in every way that programs do; all of them print what they can see.
import inspect
import multiprocessing
import os
import signal
import subprocess
import sys


def spawned(end, connection):
    process = multiprocessing.current_process()
    print("spawned", process.name, process.daemon, len(process.authkey), multiprocessing.parent_process().pid == os.getppid())
    print(sys.argv, sys.orig_argv[:2], sys.path, sys.executable, sys.flags, os.getcwd())
    print({name: str(value).split(" object at ")[0] for name, value in vars(sys.modules["__main__"]).items() if name[:2] == "__"})
    print([frame.filename for frame in inspect.stack()], sorted(os.listdir("/proc/self/fd")), os.environ["ADDED"])
    with open("/proc/self/environ", "rb") as file:
        print(sorted(file.read().split(b"\0")))
    connection.send(os.getppid() == process._parent_pid)
    if end == "raise":
        raise ValueError("an error")
    if end == "exit":
        sys.exit(3)
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


def main():
    # Not what any of them reads before it begins.
    os.environ["ADDED"] = "1"
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        for end in ("well", "raise", "exit", "kill"):
            ours, theirs = context.Pipe()
            process = context.Process(target=spawned, args=(end, theirs), name=method + "-" + end)
            process.start()
            print("received", ours.recv(), flush=True)
            process.join()
            print(method, end, process.exitcode, flush=True)
    read, write = os.pipe()
    os.set_inheritable(write, False)
    python, here = sys.executable, os.getcwd()
    for words, options in (
        ([python, "probe.py", "one", "well"], {}),
        ([python, "-u", "probe.py", "exit"], {"stdin": subprocess.DEVNULL, "start_new_session": True}),
        (["python", os.path.join(here, "probe.py"), "raise"], {"cwd": "/", "env": {**os.environ, "MORE": "2"}}),
        ([python, "-m", "probe", "text"], {"pass_fds": (write,)}),
        ([python, "probe.py", "kill"], {"stderr": subprocess.STDOUT}),
        ([os.path.join(os.path.dirname(python), "tool"), "a", "well"], {}),
        ([python, "probe.py", "well"], {"preexec_fn": lambda: None}),
        ([python, "-c", "print('not warm')"], {}),
    ):
        done = subprocess.run(words, stdout=subprocess.PIPE, input=None if "stdin" in options else b"", **options)
        print(words[1:], done.returncode, flush=True)
        os.write(1, done.stdout)
    print("the end")


if __name__ == "__main__":
    main()
