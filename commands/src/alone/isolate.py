"""Lets a PyTorch program be one rank of a job without the others, for `ftest exec --as-rank`: its process groups form
immediately."""

import ctypes
import os
import sys

# Size of an ncclUniqueId, which here identifies nobody.
UNIQUE_ID_BYTES = 128


def begin(torch):
    if not torch.distributed.is_available():
        return
    import torch.distributed.distributed_c10d as distributed_c10d

    # The package has a function of the module's name.
    rendezvous = sys.modules["torch.distributed.rendezvous"]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    class Store(torch.distributed.Store):
        """Holds what this rank puts there. Values from other ranks are empty, or an id of nobody; it waits for nothing."""

        # C++ alone would not keep the methods alive.
        kept = []

        def __init__(self):
            super().__init__()
            self.values = {}
            self.kept.append(self)

        def set(self, key, value):
            self.values[key] = value.encode() if isinstance(value, str) else bytes(value)

        def get(self, key):
            return self.values.get(key, bytes(UNIQUE_ID_BYTES))

        def add(self, key, amount):
            # If ranks count themselves, the others count as having been there.
            now = int(self.values.get(key, b"0")) + amount
            self.values[key] = str(now).encode()
            return max(now, size) if now > 0 else now

        def compare_set(self, key, expected, desired):
            if self.values.get(key, b"") == expected.encode() or key not in self.values:
                self.set(key, desired)
            return self.values[key]

        def check(self, keys):
            return all(key in self.values for key in keys)

        def wait(self, keys, timeout=None):
            pass

        def delete_key(self, key):
            return self.values.pop(key, None) is not None

        def num_keys(self):
            return len(self.values)

        def set_timeout(self, timeout):
            pass

    def meet(url, timeout=None, **_):
        yield Store(), rank, size

    for scheme in ("env", "tcp", "file"):
        rendezvous._rendezvous_handlers[scheme] = meet

    # Groups are created, not split off, because splitting would involve every rank.
    distributed_c10d._get_split_source = lambda *_: None

    # For groups that are split off anyway: NCCL would learn from the other ranks which ones take part.
    group, shim = torch._C._distributed_c10d.ProcessGroup, ctypes.CDLL(None)
    split = getattr(group, "split_group", None)

    def split_group(self, ranks, *arguments, **named):
        shim.ftest_split_takes((ctypes.c_uint32 * len(ranks))(*ranks), ctypes.c_size_t(len(ranks)))
        try:
            return split(self, ranks, *arguments, **named)
        finally:
            # A split that failed before it reached NCCL must leave nothing for the next one.
            shim.ftest_split_takes((ctypes.c_uint32 * 1)(), ctypes.c_size_t(0))

    if split is not None:
        group.split_group = split_group

    def without_gloo(backend):
        """gloo connects to every other rank; here its communication has no observer."""
        from torch.testing._internal.distributed import fake_pg  # noqa: F401, registers `fake`

        return str(backend or "cpu:gloo,cuda:nccl").lower().replace("gloo", "fake")

    def replace(name, take_store):
        body = getattr(distributed_c10d, name)

        def call(*arguments, **named):
            arguments = list(arguments)
            if take_store:
                if arguments:
                    arguments[0] = without_gloo(arguments[0])
                else:
                    named["backend"] = without_gloo(named.get("backend"))
                if named.get("store") is not None:
                    named["store"] = Store()
            elif named.get("backend") is not None:
                named["backend"] = without_gloo(named["backend"])
            elif len(arguments) > 2 and arguments[2] is not None:
                arguments[2] = without_gloo(arguments[2])
            return body(*arguments, **named)

        setattr(distributed_c10d, name, call)
        setattr(torch.distributed, name, call)

    replace("init_process_group", True)
    replace("new_group", False)
