def install(here, accessed, most, sleeps):
    """Notes the files that `torch.save`, `torch.distributed.checkpoint` and safetensors write and read, and how many collectives the rank
    had issued in each of its groups by then: what orders the accesses of two ranks. The given function records each. False if PyTorch
    is still being imported."""
    import contextlib
    import functools
    import json
    import os
    import sys
    import time
    import weakref

    torch, c10d = sys.modules.get("torch"), sys.modules.get("torch.distributed.distributed_c10d")
    serialization = sys.modules.get("torch.serialization")
    if c10d is None or serialization is None or "torch.optim.optimizer" not in sys.modules:
        return False
    if getattr(torch.__spec__, "_initializing", False):
        return False
    from torch.optim.optimizer import register_optimizer_step_post_hook

    # By optimizer: how many steps it made.
    steps = weakref.WeakKeyDictionary()
    # Where the rank was when it last waited for others in a way that is not a collective.
    waited, noted = None, 0

    def position():
        """By group, how many collectives the rank has issued."""
        counts = {}
        for group in list(c10d._world.pg_map):
            try:
                counts[group.group_name] = group._get_sequence_number_for_group()
            except Exception:
                # The backend does not count.
                continue
        return counts

    def name_of(path):
        """The same on all ranks, and without the directories of this run."""
        path = os.path.realpath(os.fsdecode(path))
        scratch, own = os.environ.get("FTEST_SCRATCH"), os.getcwd()
        for directory, word in ((scratch and os.path.realpath(scratch), "$FTEST_SCRATCH/"), (own, "")):
            if directory and path.startswith(directory + os.sep):
                return word + path[len(directory) + 1 :]
        return path

    class Access:
        def __init__(self, path, function, writes):
            self.path, self.function, self.writes = os.path.abspath(path), function, writes
            self.site, self.began = here(), position()

        def end(self):
            nonlocal noted
            if not self.began or noted >= most or not os.path.isfile(self.path):
                return
            noted += 1
            access = {
                "path": name_of(self.path),
                "function": self.function,
                "writes": self.writes,
                "began": self.began,
                "ended": position(),
                "has_waited": waited == self.began,
                "steps": max(steps.values(), default=0),
                "attempt": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
            }
            accessed(self.site, json.dumps(access).encode())

    def access_to(path, function, writes):
        try:
            return Access(path, function, writes)
        except Exception:
            # Who opens it refuses what is no path itself.
            return None

    def watch(kind, writes):
        begin, end = kind.__init__, kind.__exit__

        @functools.wraps(begin)
        def __init__(self, name, *args):
            is_write = writes or "w" in args[0]
            access = access_to(name, "torch.save" if is_write else "torch.load", is_write)
            begin(self, name, *args)
            self._ftest_access = access

        @functools.wraps(end)
        def __exit__(self, *args):
            try:
                return end(self, *args)
            finally:
                # What fails half-way has read or written, too.
                access = self.__dict__.pop("_ftest_access", None)
                if access is not None:
                    access.end()

        kind.__init__, kind.__exit__ = __init__, __exit__

    def watch_distributed(module):
        create = module.FileSystem.create_stream

        @functools.wraps(create)
        @contextlib.contextmanager
        def create_stream(self, path, mode):
            is_write = "w" in mode
            access = access_to(path, f"torch.distributed.checkpoint.{'save' if is_write else 'load'}", is_write)
            try:
                with create(self, path, mode) as stream:
                    yield stream
            finally:
                if access is not None:
                    access.end()

        module.FileSystem.create_stream = create_stream

    def watch_safetensors(module):
        serialize, opens = module.serialize_file, module.safe_open

        @functools.wraps(serialize)
        def serialize_file(tensors, filename, *args, **kwargs):
            access = access_to(filename, "safetensors.torch.save_file", True)
            try:
                return serialize(tensors, filename, *args, **kwargs)
            finally:
                if access is not None:
                    access.end()

        # It maps the file, and reads when it is asked for a tensor.
        def safe_open(filename, *args, **kwargs):
            access = access_to(filename, "safetensors.torch.load_file", False)
            opened = opens(filename, *args, **kwargs)
            if access is not None:
                access.end()
            return opened

        module.serialize_file, module.safe_open = serialize_file, safe_open

    class Later:
        """Finds modules that the program may import later, and watches them then."""

        def __init__(self, modules):
            self.modules = modules

        def find_spec(self, name, path, target=None):
            watch_module = self.modules.pop(name, None)
            if watch_module is None:
                return None
            others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
            spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
            if spec is not None and hasattr(spec.loader, "exec_module"):
                execute = spec.loader.exec_module

                def exec_module(module):
                    execute(module)
                    watch_module(module)

                spec.loader.exec_module = exec_module
            return spec

    def waits(holder, name):
        original = getattr(holder, name, None)
        if original is None:
            return

        @functools.wraps(original)
        def wait(*args, **kwargs):
            nonlocal waited
            try:
                return original(*args, **kwargs)
            finally:
                waited = position()

        setattr(holder, name, wait)

    def stepped(optimizer, *_):
        steps[optimizer] = steps.get(optimizer, 0) + 1

    watch(serialization._open_zipfile_writer_file, True)
    watch(serialization._open_file, False)
    modules = {"torch.distributed.checkpoint.filesystem": watch_distributed, "safetensors.torch": watch_safetensors}
    for name in [name for name in modules if name in sys.modules]:
        modules.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, Later(modules))
    # A rank that sleeps may be looking for a file that says that another one is complete. On the modeled clock, who calls `sleep` matters.
    if sleeps:
        waits(time, "sleep")
    for name in ("wait", "get"):
        waits(c10d.Store, name)
    for name in ("recv", "recv_anysource"):
        waits(c10d.ProcessGroup, name)
    register_optimizer_step_post_hook(stepped)
    return True


def start(addresses):
    import ctypes

    here = ctypes.CFUNCTYPE(ctypes.c_uint)(addresses["here"])
    accessed = ctypes.CFUNCTYPE(None, ctypes.c_uint, ctypes.c_char_p)(addresses["accessed"])
    if install(here, accessed, addresses["most"], bool(addresses["sleeps"])):
        ctypes.CFUNCTYPE(None)(addresses["installed"])()
