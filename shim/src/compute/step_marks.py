def install(mark):
    """Calls the given function where a step begins or ends, with who says so and whether it begins: the profiler, an NVTX range
    named `step` or `iteration`, or the first optimizer that steps. False if PyTorch is still being imported."""
    import functools
    import re
    import sys
    import threading
    import weakref

    torch = sys.modules.get("torch")
    needed = ("torch.optim.optimizer", "torch.profiler.profiler", "torch.cuda.nvtx")
    if any(name not in sys.modules for name in needed) or getattr(torch.__spec__, "_initializing", False):
        return False
    PROFILER, NVTX, OPTIMIZER = range(3)
    profile, nvtx = sys.modules["torch.profiler.profiler"].profile, sys.modules["torch.cuda.nvtx"]
    first = []

    def stepped(optimizer, *_):
        if not first or first[0]() is None:
            first[:] = [weakref.ref(optimizer)]
        if first[0]() is optimizer:
            mark(OPTIMIZER, False)

    sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(stepped)

    step = profile.step

    @functools.wraps(step)
    def profiled(self):
        mark(PROFILER, False)
        return step(self)

    profile.step = profiled

    named = re.compile(r"(train(ing)?[ _-]?)?(step|iteration|iter)[ _#:-]*\d*", re.IGNORECASE)
    # Of each thread: for each range, whether it is a step.
    pushed = threading.local()
    ranges = nvtx._nvtx

    class Ranges:
        """The module that the functions of `torch.cuda.nvtx` call."""

        def __getattr__(self, name):
            return getattr(ranges, name)

        def rangePushA(self, message):
            stack = pushed.__dict__.setdefault("ranges", [])
            # Of ranges within each other, the outer one.
            is_step = bool(named.fullmatch(message)) and True not in stack
            stack.append(is_step)
            if is_step:
                mark(NVTX, True)
            return ranges.rangePushA(message)

        def rangePop(self):
            stack = pushed.__dict__.get("ranges")
            if stack and stack.pop():
                mark(NVTX, False)
            return ranges.rangePop()

    nvtx._nvtx = Ranges()
    return True


def start(addresses):
    import ctypes

    mark = ctypes.CFUNCTYPE(None, ctypes.c_uint, ctypes.c_bool)(addresses["mark"])
    ctypes.CFUNCTYPE(None)(addresses["installed" if install(mark) else "later"])()
