def install(began, repeated):
    """Looks at passes over datasets with a DistributedSampler: whether all ranks share it in the same way, and whether training
    takes the samples in the order of the pass before. The given functions record both. False if PyTorch has no such class yet."""
    import sys
    import weakref

    torch, module = sys.modules.get("torch"), sys.modules.get("torch.utils.data.distributed")
    if "torch.optim.optimizer" not in sys.modules or not hasattr(module, "DistributedSampler"):
        return False
    from torch.optim.optimizer import register_optimizer_step_post_hook

    kind = module.DistributedSampler
    iterate, set_epoch = kind.__iter__, kind.set_epoch
    # By sampler: the epochs that were trained on; and the samplers whose epoch the program sets.
    trained, are_set = weakref.WeakKeyDictionary(), weakref.WeakSet()

    class Pass:
        # The one that yielded last: a step of an optimizer is made on its samples.
        latest = None

        def __init__(self, sampler):
            order = (int(sampler.seed), int(sampler.epoch)) if sampler.shuffle else None
            length = len(sampler.dataset)
            self.sampler, self.is_trained_on = weakref.ref(sampler), not sampler.shuffle or not torch.is_grad_enabled()
            self.site = began(sampler.num_replicas, sampler.rank, length, order, bool(sampler.drop_last))

        def follow(self, indices):
            try:
                for index in indices:
                    Pass.latest = self
                    yield index
            finally:
                if Pass.latest is self:
                    Pass.latest = None

    def passes(sampler, indices):
        # It begins with the first sample, where the program's loop is.
        try:
            current = Pass(sampler)
        except Exception:
            # A class of the program's own with other attributes.
            yield from indices
            return
        yield from current.follow(indices)

    def __iter__(sampler):
        return passes(sampler, iterate(sampler))

    def setting_epoch(sampler, epoch):
        are_set.add(sampler)
        set_epoch(sampler, epoch)

    def stepped(*_):
        current = Pass.latest
        if current is None or current.is_trained_on:
            return
        current.is_trained_on = True
        sampler = current.sampler()
        if sampler is not None:
            epochs = trained.setdefault(sampler, set())
            if sampler.epoch in epochs and sampler not in are_set:
                repeated(current.site)
            epochs.add(sampler.epoch)

    kind.__iter__, kind.set_epoch = __iter__, setting_epoch
    register_optimizer_step_post_hook(stepped)
    return True


def start(addresses):
    import ctypes

    number, large = ctypes.c_uint, ctypes.c_longlong
    began = ctypes.CFUNCTYPE(number, number, number, large, ctypes.c_bool, large, large, ctypes.c_bool)(addresses["began"])
    repeated = ctypes.CFUNCTYPE(None, number)(addresses["repeated"])

    def began_pass(replicas, replica, length, order, drops_last):
        seed, epoch = order or (0, 0)
        return began(replicas, replica, length, order is not None, seed, epoch, drops_last)

    if install(began_pass, repeated):
        ctypes.CFUNCTYPE(None)(addresses["installed"])()
