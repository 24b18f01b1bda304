def install(step, sampled, refuse, is_inner):
    """Notes the indices of the samples that data loaders give to training, and each step of an optimizer. The given functions record
    both. False if PyTorch is still being imported."""
    import collections
    import functools
    import operator
    import sys
    import weakref

    torch, loading = sys.modules.get("torch"), sys.modules.get("torch.utils.data.dataloader")
    if "torch.optim.optimizer" not in sys.modules or loading is None or getattr(torch.__spec__, "_initializing", False):
        return False
    from torch.optim.optimizer import register_optimizer_step_post_hook

    loader, iterator = loading.DataLoader, loading._BaseDataLoaderIter
    begin, draw, reset, take = loader.__iter__, iterator._next_index, iterator._reset, iterator.__next__
    # By iterator: the batches of indices that were drawn and not taken yet. With workers, several are under way.
    drawn = weakref.WeakKeyDictionary()
    # By optimizer: its number, and how many steps it made.
    steps = weakref.WeakKeyDictionary()
    taken = []

    def note(indices):
        indices = indices.tolist() if hasattr(indices, "tolist") else indices
        indices = list(indices) if isinstance(indices, (list, tuple)) else [indices]
        try:
            taken.extend([operator.index(index) for index in indices])
        except TypeError:
            is_stream = all(index is None for index in indices)
            refuse(b"samples of an IterableDataset have no indices" if is_stream else b"samples are not numbered by integers")

    @functools.wraps(begin)
    def __iter__(self):
        if not torch.is_grad_enabled():
            return begin(self)
        if type(self).__iter__ is not __iter__:
            refuse(f"{type(self).__name__} takes batches from its DataLoader by code of its own, perhaps earlier than training".encode())
        if self.num_workers and not getattr(self, "in_order", True):
            refuse(b"a DataLoader with in_order=False does not say which batch comes next")
        return begin(self)

    @functools.wraps(draw)
    def _next_index(self):
        indices = draw(self)
        drawn.setdefault(self, collections.deque()).append(indices)
        return indices

    @functools.wraps(reset)
    def _reset(self, *args, **kwargs):
        drawn.pop(self, None)
        return reset(self, *args, **kwargs)

    @functools.wraps(take)
    def __next__(self):
        try:
            return take(self)
        finally:
            # One that could not be loaded counts: the program goes on with the next.
            batches = drawn.get(self)
            indices = batches.popleft() if batches else []
            if torch.is_grad_enabled():
                note(indices)

    def after(optimizer, *_):
        if is_inner():
            return
        number, count = steps.get(optimizer, (len(steps), 0))
        steps[optimizer] = number, count + 1
        sampled(taken)
        taken.clear()
        step(number, count + 1)

    loader.__iter__, iterator._next_index, iterator._reset, iterator.__next__ = __iter__, _next_index, _reset, __next__
    register_optimizer_step_post_hook(after)
    return True


def start(addresses):
    import ctypes

    number, large, size = ctypes.c_uint, ctypes.c_longlong, ctypes.c_size_t
    samples = ctypes.CFUNCTYPE(None, ctypes.POINTER(large), size)(addresses["samples"])

    def sampled(indices):
        samples((large * len(indices))(*indices), len(indices))

    step = ctypes.CFUNCTYPE(None, number, ctypes.c_ulonglong)(addresses["step"])
    refuse = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(addresses["refuse"])
    if install(step, sampled, refuse, addresses["is_inner"]):
        ctypes.CFUNCTYPE(None)(addresses["installed"])()
