def install(is_workers, changed):
    """Changes in the program what a relation between two runs is about: the number of processes that load data, or the size of the
    buckets in which DistributedDataParallel reduces gradients. The given function notes each change. False if PyTorch is still being
    imported."""
    import functools
    import inspect
    import sys

    torch = sys.modules.get("torch")
    if torch is None or getattr(torch.__spec__, "_initializing", False):
        return False
    import torch.distributed
    import torch.nn.parallel
    import torch.utils.data

    # One byte, so that every parameter has a bucket of its own; what DDP takes by default, where the program has that.
    small, usual = 2**-20, 25

    def workers(given):
        return given + 1 if given else 2

    def bucket(given):
        is_small = given is not None and given <= small
        torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 1 << 20 if is_small else 1
        return usual if is_small else small

    if is_workers:
        kind, name, other = torch.utils.data.DataLoader, "num_workers", workers
    else:
        kind, name, other = torch.nn.parallel.DistributedDataParallel, "bucket_cap_mb", bucket
    original = kind.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def __init__(*args, **kwargs):
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            # The program's mistake: it gets the message of PyTorch.
            return original(*args, **kwargs)
        given = bound.arguments.get(name, signature.parameters[name].default)
        bound.arguments[name] = other(given)
        changed()
        return original(*bound.args, **bound.kwargs)

    kind.__init__ = __init__
    return True


def start(addresses):
    import ctypes

    changed = ctypes.CFUNCTYPE(None)(addresses["changed"])
    if install(bool(addresses["is_workers"]), changed):
        ctypes.CFUNCTYPE(None)(addresses["installed"])()
