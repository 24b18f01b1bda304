"""Lets a PyTorch program be one rank of a job without the others, for `ftest exec --as-rank`: its process groups form immediately. A
preflight runs ranks one after the other; then what goes through a store or through a group without NCCL comes from those before."""

import ctypes
import functools
import hashlib
import os
import sys

# Size of an ncclUniqueId.
UNIQUE_ID_BYTES = 128
# The most that is kept of one value.
ROOM = 1 << 20
# Of the functions that move tensors, after the tensor.
PARAMETERS = {
    "broadcast": ("src", "group", "async_op", "group_src"),
    "scatter": ("scatter_list", "src", "group", "async_op", "group_src"),
    "isend": ("dst", "group", "tag", "group_dst"),
    "irecv": ("src", "group", "tag", "group_src"),
}


def begin(torch):
    if not torch.distributed.is_available():
        return
    import torch.distributed.distributed_c10d as distributed_c10d

    # The package has a function of the module's name.
    rendezvous = sys.modules["torch.distributed.rendezvous"]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    exchange = Exchange(torch, rank)

    class Store(torch.distributed.Store):
        """Holds what this rank puts there, and what ranks did that ran before. Other values are an id of nobody; it waits for nothing."""

        # C++ alone would not keep the methods alive.
        kept = []

        def __init__(self):
            super().__init__()
            self.values = {}
            self.kept.append(self)

        def set(self, key, value):
            self.values[key] = value = value.encode() if isinstance(value, str) else bytes(value)
            exchange.send(f"store {key}", value)
            exchange.name_communicator(value, key)

        def get(self, key):
            value = self.values.get(key)
            if value is None:
                value = exchange.receive(f"store {key}", -1)
            if value is None:
                # Of the size of an id, and the same on all ranks.
                value = hashlib.sha512(key.encode()).digest() * (UNIQUE_ID_BYTES // 64)
                place = exchange.user_line()
                if place:
                    exchange.misses(
                        f"the value of `{key}` in the store is read at {place}, and no rank that was run before this one has set it"
                    )
            exchange.name_communicator(value, key)
            return value

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
            return all(key in self.values or exchange.receive(f"store {key}", -1) is not None for key in keys)

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
    if os.environ.get("FTEST_SENT"):
        exchange.follow(distributed_c10d)


class Exchange:
    """What this rank sends without NCCL, and what ranks sent that a preflight ran before. Without a preflight nothing is recorded."""

    def __init__(self, torch, rank):
        self.torch, self.rank = torch, rank
        self.installed = os.path.dirname(torch.__file__) + os.sep
        self.counts, self.members = {}, {}
        self.shim = ctypes.CDLL(None)
        self.shim.ftest_receives.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_size_t]
        self.shim.ftest_receives.restype = ctypes.c_int64
        self.shim.ftest_sends.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
        self.shim.ftest_lacks.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_size_t]
        self.shim.ftest_is_known.argtypes = [ctypes.c_size_t, ctypes.c_size_t]

    def name_communicator(self, value, key):
        """Of what PyTorch passes in a store, an id of NCCL has this size."""
        if len(value) == UNIQUE_ID_BYTES:
            # `default_pg/0//1//cuda//1/nccl_storekey_0` belongs to the group `1`.
            parts = key.split("//")
            ranks = self.members.get(parts[1], self.members.get("0", [])) if len(parts) > 1 else []
            numbers = (ctypes.c_uint32 * max(len(ranks), 1))(*ranks)
            self.shim.ftest_communicator_is(value, key.encode(), numbers, ctypes.c_size_t(len(ranks)))

    def send(self, name, value):
        self.shim.ftest_sends(name.encode(), value, len(value))

    def send_unknown(self, name, count):
        self.shim.ftest_sends(name.encode(), None, count)

    def receive(self, name, sender):
        room = ctypes.create_string_buffer(ROOM)
        count = self.shim.ftest_receives(name.encode(), sender, room, ROOM)
        return room.raw[:count] if 0 <= count <= ROOM else None

    def misses(self, sentence):
        self.shim.ftest_misses(sentence.encode())

    def numbered(self, name):
        self.counts[name] = number = self.counts.get(name, -1) + 1
        return f"{name} {number}"

    def give(self, group, name, tensor):
        name = self.numbered(f"group {group.group_name}: {name}")
        if tensor.nbytes > ROOM or not self.is_known(tensor):
            return self.send_unknown(name, tensor.nbytes)
        data = tensor.detach().cpu().contiguous()
        self.send(name, ctypes.string_at(data.data_ptr(), data.nbytes))

    def is_known(self, tensor):
        """A copy to the host of what nobody computed would be taken for a decision of the program."""
        return not tensor.is_cuda or (tensor.is_contiguous() and bool(self.shim.ftest_is_known(tensor.data_ptr(), tensor.nbytes)))

    def take(self, group, name, sender, tensor):
        numbered = self.numbered(f"group {group.group_name}: {name}")
        data = self.receive(numbered, sender) if tensor.nbytes <= ROOM else None
        with self.torch.no_grad():
            if data is not None and len(data) == tensor.nbytes:
                if data:
                    # As in a collective, autograd does not notice.
                    tensor.data.copy_(self.torch.frombuffer(bytearray(data), dtype=tensor.dtype).view(tensor.shape))
                return
            if tensor.is_cuda:
                self.shim.ftest_lacks(numbered.encode(), name.split()[0].encode(), sender, tensor.data_ptr(), tensor.nbytes)
                return
            if tensor.is_floating_point() or tensor.is_complex():
                return
            # So that two runs agree.
            tensor.zero_()
        self.misses(
            f"{name.split()[0]}{self.line()} on the CPU gets nothing: rank {sender} was not run before this one, or sent something else"
        )

    def is_users(self, frame):
        file = frame.f_code.co_filename
        return not file.startswith((self.installed, "<frozen"))

    def user_line(self):
        """The line that calls the caller's function, if it is not PyTorch's."""
        frame = sys._getframe(2)
        return f"{frame.f_code.co_filename}:{frame.f_lineno}" if self.is_users(frame) else None

    def line(self):
        frame = sys._getframe(1)
        while frame is not None and not self.is_users(frame):
            frame = frame.f_back
        return f" at {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""

    def follow(self, module):
        """Calls go through `fake` groups, which move nothing, if the tensors are not on a GPU or the program asks for such groups."""
        rank = self.rank

        def is_fake(tensor, group):
            if tensor.device.type == "cpu":
                return True
            # Not one of those that stand for a tensor while the program is traced, nor a call that is only recorded in a graph.
            is_plain = type(tensor) in (self.torch.Tensor, self.torch.nn.Parameter) and tensor.is_cuda
            return is_plain and not self.torch.cuda.is_current_stream_capturing() and group._get_backend(tensor.device).name() == "fake"

        def members(group):
            return module.get_process_group_ranks(group)

        def follow_call(name, move):
            body = getattr(module, name)

            @functools.wraps(body)
            def call(tensor, *arguments, **named):
                result = body(tensor, *arguments, **named)
                values = dict(zip(PARAMETERS[name], arguments)) | named
                if isinstance(tensor, self.torch.Tensor) and not module._rank_not_in_group(values.get("group")):
                    group = module._group_or_default_group(values.get("group"))
                    if is_fake(tensor, group):
                        move(tensor, group, values)
                return result

            setattr(module, name, call)
            setattr(self.torch.distributed, name, call)

        def other(group, values, name, default=None):
            if values.get(f"group_{name}") is not None:
                return members(group)[values[f"group_{name}"]]
            return default if values.get(name) is None else values[name]

        def broadcast(tensor, group, values):
            root = other(group, values, "src", 0)
            if root == rank:
                self.give(group, f"broadcast from {root}", tensor)
            else:
                self.take(group, f"broadcast from {root}", root, tensor)

        def scatter(tensor, group, values):
            root = other(group, values, "src", 0)
            if root == rank:
                for receiver, part in zip(members(group), values.get("scatter_list") or []):
                    self.give(group, f"scatter from {root} to {receiver}", part)
            else:
                self.take(group, f"scatter from {root} to {rank}", root, tensor)

        def isend(tensor, group, values):
            self.give(group, f"send from {rank} to {other(group, values, 'dst')}", tensor)

        def irecv(tensor, group, values):
            sender = other(group, values, "src")
            if sender is not None:
                self.take(group, f"send from {sender} to {rank}", sender, tensor)

        for operation in (broadcast, scatter, isend, irecv):
            follow_call(operation.__name__, operation)

        helper = module._new_process_group_helper

        def keep_members(group_size, group_rank, global_ranks_in_group, backend, store, group_name, *arguments, **named):
            self.members[str(group_name)] = list(global_ranks_in_group) or list(range(group_size))
            return helper(group_size, group_rank, global_ranks_in_group, backend, store, group_name, *arguments, **named)

        module._new_process_group_helper = keep_members
