def install(aliased, transferred, most, here, wait, upstream):
    """Looks at the calls of PyTorch's process groups: for outputs that are the same memory, at the tags and strides of sends and
    recvs, and at the gradients of tensors that an all_reduce changed. The given functions record them. False if PyTorch is still being
    imported."""
    import functools
    import math
    import sys

    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    group_class = getattr(distributed, "ProcessGroup", None)
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if group_class is None or c10d is None or getattr(torch.__spec__, "_initializing", False):
        return False
    # By group, ranks and direction: how many sends or recvs there were. And how many were noted.
    counts, noted = {}, 0

    def look_at_outputs(name):
        def look(_, outputs, *__):
            if outputs and isinstance(outputs[0], (list, tuple)):
                outputs = outputs[0]
            pieces = []
            for place, output in enumerate(outputs):
                # Views with gaps may lie between each other.
                if output.is_cuda and output.numel() and output.is_contiguous():
                    pieces.append((output.data_ptr(), output.numel() * output.element_size(), place))
            pieces.sort()
            for (start, length, first), (following, _, second) in zip(pieces, pieces[1:]):
                if following < start + length:
                    aliased(name, min(first, second), max(first, second))
                    return

        return look

    def is_batched(group):
        return group in c10d._world.pg_coalesce_state

    def look_at_end(is_send):
        def look(group, tensors, peer, tag=0):
            nonlocal noted
            tensor, own = tensors[0], group.rank()
            if not tensor.is_cuda:
                return
            source, destination = (own, peer) if is_send else (peer, own)
            route = (group.group_name, source, destination, is_batched(group))
            earlier = counts.get((route, is_send), 0)
            counts[route, is_send] = earlier + 1
            # PyTorch takes tensors with other strides only if they have four or five dimensions (channels last).
            if noted < most and (tag != 0 or tensor.dim() >= 4):
                noted += 1
                sizes = [number for pair in zip(tensor.shape, tensor.stride()) for number in pair]
                transferred(route, distributed.get_rank(), is_send, tag, earlier, sizes)

        return look

    # The key of a node of autograd's graph under which the all_reduces of its outputs are.
    SUMS = "ftest"
    # How many all_reduces there were of tensors that autograd follows, and how many backward passes may still come to one.
    sums, passes = 0, 0

    class Sum:
        """An all_reduce in place, which autograd does not see: it takes the sum for the tensor that was there before."""

        def __init__(self, group, tensor):
            self.ranks, self.earlier = sorted(distributed.get_process_group_ranks(group)), sums
            self.output, self.site, self.is_followed = tensor.output_nr, here(), False
            # Nodes from now on compute with the sum.
            self.first = torch._C._autograd._get_sequence_nr()

    def look_at_sum(group, tensors, *_):
        nonlocal sums, passes
        tensor = tensors[0] if isinstance(tensors, (list, tuple)) else tensors
        is_followed = torch.is_grad_enabled() and tensor.requires_grad and tensor.grad_fn is not None
        if is_followed and tensor.is_cuda and group.size() > 1:
            tensor.grad_fn.metadata.setdefault(SUMS, []).append(Sum(group, tensor))
            follow_backward()
            sums, passes = sums + 1, 8

    @functools.cache
    def follow_backward():
        def follow(original):
            @functools.wraps(original)
            def run(*arguments, **named):
                try:
                    begins(arguments[0] if arguments else named.get("tensors", named.get("outputs")))
                except Exception:
                    # What PyTorch does not accept, it refuses itself.
                    pass
                return original(*arguments, **named)

            return run

        torch.autograd.backward, torch.autograd.grad = follow(torch.autograd.backward), follow(torch.autograd.grad)

    def begins(roots):
        """A backward pass begins: looks for nodes that computed with a sum."""
        nonlocal passes
        if passes == 0:
            return
        passes -= 1
        roots = [roots] if isinstance(roots, torch.Tensor) else roots
        nodes = [root.grad_fn for root in roots if root.grad_fn is not None]
        seen = set(nodes)
        while nodes:
            node = nodes.pop()
            for following, output in node.next_functions:
                if following is None:
                    continue
                for one in following.metadata.get(SUMS, ()):
                    if one.output == output and not one.is_followed and node._sequence_nr() >= one.first:
                        one.is_followed = True
                        following.register_prehook(functools.partial(came_back, one))
                if following not in seen:
                    seen.add(following)
                    nodes.append(following)

    def came_back(one, gradients):
        gradient = gradients[one.output]
        if gradient is None or not gradient.is_cuda or gradient.layout != torch.strided:
            return
        # A number that was expanded is there once.
        strides = [(size, stride) for size, stride in zip(gradient.shape, gradient.stride()) if stride]
        span = 1 + sum((size - 1) * stride for size, stride in strides)
        if gradient.numel() and span == math.prod(size for size, _ in strides):
            with torch.cuda.device(gradient.device):
                wait(torch.cuda.current_stream().cuda_stream)
            upstream(one, distributed.get_rank(), gradient.data_ptr(), span * gradient.element_size())

    def wrap(name, look):
        original = getattr(group_class, name, None)
        if original is None:
            return

        def call(group, *arguments, **named):
            try:
                look(group, *arguments, **named)
            except Exception:
                # What PyTorch does not accept, it refuses itself.
                pass
            return original(group, *arguments, **named)

        try:
            from torch._C._dynamo.eval_frame import skip_code

            skip_code(call.__code__)
        except ImportError:
            pass
        setattr(group_class, name, call)

    wrap("allgather", look_at_outputs(b"all_gather"))
    wrap("gather", look_at_outputs(b"gather"))
    wrap("alltoall", look_at_outputs(b"all_to_all"))
    # In a program that has process groups by now, this rank may have missed another number of calls than the others: they form their
    # communicators with the first call.
    if not distributed.is_initialized():
        wrap("send", look_at_end(True))
        wrap("recv", look_at_end(False))
        wrap("allreduce", look_at_sum)
    return True


def start(addresses):
    import ctypes

    number, large = ctypes.c_uint, ctypes.c_uint64

    class End(ctypes.Structure):
        _fields_ = [
            ("group", ctypes.c_char_p),
            ("sizes", ctypes.POINTER(large)),
            ("dimensions", large),
            ("rank", number),
            ("source", number),
            ("destination", number),
            ("is_batched", ctypes.c_bool),
            ("is_send", ctypes.c_bool),
            ("tag", ctypes.c_longlong),
            ("earlier", large),
        ]

    aliased = ctypes.CFUNCTYPE(None, ctypes.c_char_p, number, number)(addresses["aliased"])
    transferred = ctypes.CFUNCTYPE(None, ctypes.POINTER(End))(addresses["transferred"])

    def transferred_end(route, rank, is_send, tag, earlier, sizes):
        group, source, destination, is_batched = route
        room = (large * len(sizes))(*sizes)
        group = group.encode()
        end = End(group, room, len(sizes) // 2, rank, source, destination, is_batched, is_send, tag, earlier)
        transferred(ctypes.byref(end))

    here = ctypes.CFUNCTYPE(number)(addresses["here"])
    wait = ctypes.CFUNCTYPE(None, ctypes.c_size_t)(addresses["wait"])
    upstream = ctypes.CFUNCTYPE(None, number, ctypes.POINTER(number), *[ctypes.c_size_t] * 3, number, large)(addresses["upstream"])

    def upstream_of(one, rank, address, length):
        count = len(one.ranks)
        upstream(rank, (number * count)(*one.ranks), count, address, length, one.site, one.earlier)

    if install(aliased, transferred_end, addresses["most"], here, wait, upstream_of):
        ctypes.CFUNCTYPE(None)(addresses["installed"])()
