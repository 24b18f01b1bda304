# Prints everything about its process that a program can see and that does not change from run to run, then ends as its last
# argument says.
import atexit
import ctypes
import faulthandler
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
import warnings


def show(name, value):
    print(name, repr(value))


show("argv", (sys.argv, sys.orig_argv))
show("path", sys.path)
show("interpreter", (sys.executable, sys._base_executable, sys.prefix, sys.flags, sys.warnoptions, sys._xoptions))
show("directory", os.getcwd())
show("environment", list(os.environ.items()))
for name in ("cmdline", "environ", "comm", "limits", "cgroup", "oom_score_adj"):
    with open("/proc/self/" + name, "rb") as file:
        show(name, file.read())
show("program", os.readlink("/proc/self/exe"))
show("working directory", os.readlink("/proc/self/cwd"))
with open("/proc/%d/cmdline" % os.getppid(), "rb") as file:
    show("parent", file.read().split(b"\0")[1:3])
show("leads", (os.getpid() == os.getpgid(0), os.getpid() == os.getsid(0)))
show("descriptors", sorted(os.listdir("/proc/self/fd")))
try:
    show("waits for", os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    show("waits for", "nobody")
with open("/proc/self/status") as file:
    wanted = "Umask Threads SigBlk SigIgn SigCgt SigPnd ShdPnd Cpus_allowed NoNewPrivs Seccomp CapInh CapEff Uid Gid Groups".split()
    show("status", [line for line in file if line.split(":")[0] in wanted])
death = ctypes.c_int(-1)
ctypes.CDLL(None).prctl(2, ctypes.byref(death), 0, 0, 0)
show("signal at the parent's death", death.value)
for stream in (sys.stdin, sys.stdout, sys.stderr):
    same = stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__)
    traits = (stream.mode, stream.encoding, stream.errors, stream.newlines, stream.line_buffering, stream.write_through)
    can = (stream.isatty(), stream.seekable(), stream.readable(), stream.writable(), stream.fileno(), stream.closed)
    show("stream", (same, repr(stream), repr(stream.buffer), traits, can))
show("input", sys.stdin.read())
show("module", {name: str(value).split(" object at ")[0] for name, value in globals().items() if name[:2] == "__"})
show("main", sys.modules["__main__"].__dict__ is globals())
show("left behind", [name for name in ("runpy", "sitecustomize", "ftest_warm") if name in sys.modules and __spec__ is None])
show("stack", [frame.filename for frame in inspect.stack()])
show("signals", [(int(number), str(signal.getsignal(number))[:30]) for number in sorted(signal.valid_signals())])
show("timer", signal.getitimer(signal.ITIMER_REAL))
show("faulthandler", faulthandler.is_enabled())
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
show("getenv", [libc.getenv(name) for name in (b"RANK", b"MINE", b"FTEST_SCRATCH", b"TMPDIR")])
show("children", subprocess.run(["env"], capture_output=True).stdout)
main = threading.main_thread()
show("threads", (main.name, main is threading.current_thread(), threading.get_native_id() == os.getpid()))
show("rest of the arguments", [len(word) for word in sys.argv])
faulthandler.dump_traceback(sys.stderr, all_threads=False)
warnings.warn("from far below", stacklevel=5)
atexit.register(print, "the last word")


class Goes:
    def __del__(self, write=os.write):
        write(1, b"a global goes\n")


goes = Goes()
sys.stdout.write("no end of line")

end = sys.argv[-1]
if end == "raise":
    raise ValueError("an error")
if end == "exit":
    sys.exit(3)
if end == "text":
    sys.exit("a text")
if end == "interrupt":
    raise KeyboardInterrupt
if end == "abort":
    faulthandler.disable()
    os.abort()
if end == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if end == "stay":
    with open(os.environ["READY"], "w") as file:
        file.write("%s\n" % os.environ.get("RANK"))
    time.sleep(1000)
