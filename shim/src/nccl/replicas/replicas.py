def install(wait, tensor, reduced, end, refuse, captured, compares_all, is_inner):
    """Enumerates tensors that should be identical on several ranks, before an optimizer's first step and after each step, and
    after each launch of a CUDA graph that contains a step; provides the callback around such a launch. The given functions read
    the numbers, in the order of the current stream; no PyTorch operator is called."""
    import gc
    import sys
    import weakref

    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return None
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    distributed = torch.distributed
    # By optimizer: the replicated parts of its models; and by group of ranks: steps so far.
    models, steps = weakref.WeakKeyDictionary(), {}
    # By optimizer: how many of its steps were reported.
    reported = weakref.WeakKeyDictionary()
    # Those whose steps are in CUDA graphs: their numbers, and by number.
    numbers, optimizers = weakref.WeakKeyDictionary(), []

    def is_dense(value):
        return 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride())) == value.numel()

    def ranks_of(group):
        return tuple(sorted(distributed.get_process_group_ranks(group)))

    def objects(name, module):
        """The live objects of a class, if its module is in use."""
        kind = getattr(sys.modules.get(module), name, None)
        return [] if kind is None else [found for found in gc.get_objects() if issubclass(type(found), kind)]

    def differs_on_purpose(model):
        """Whether its hook averages now and then, with some ranks, or not at all (`noop_hook`, which measures what communication costs)."""
        names = [getattr(hook, "__name__", "").lower() for hook, _ in getattr(model, "_comm_hooks", [])]
        return any(word in name for name in names for word in ("localsgd", "gossip", "noop"))

    def of_ddp(model):
        """Names and ranks of parameters by id; and the buffers, each with whether it is compared only while it stays
        unchanged."""
        ranks, ignored = ranks_of(model.process_group), getattr(model, "parameters_to_ignore", ())
        parameters = model.module.named_parameters()
        names = {id(parameter): (name, ranks) for name, parameter in parameters if name not in ignored}
        buffers = []
        for place, module in model.module.named_modules():
            is_synchronized = isinstance(module, torch.nn.SyncBatchNorm) and module.training
            if isinstance(module, torch.nn.modules.batchnorm._NormBase) and not is_synchronized:
                # Each rank has the statistics of its own batches until DDP broadcasts those of one rank.
                continue
            for name, _ in module.named_buffers(prefix=place, recurse=False):
                if name not in ignored:
                    buffers.append((f"buffer {name}", weakref.ref(module), name.rpartition(".")[2], ranks, not is_synchronized))
        return names, buffers

    def of_fsdp(model):
        """The same for FSDP's first version: shards within the groups of ranks that hold the same one."""
        handle, strategy = getattr(model, "_handle", None), getattr(model, "sharding_strategy", None)
        group = model.process_group if strategy.name == "NO_SHARD" else getattr(model, "_inter_node_pg", None)
        if handle is None or group is None:
            return {}, []
        flat, ranks = handle.flat_param, ranks_of(group)
        more = f" and {len(flat._fqns) - 1} more" if len(flat._fqns) > 1 else ""
        names = {id(flat): (flat._fqns[0] + more, ranks)}
        names.update((id(parameter), (name, ranks)) for name, parameter in zip(flat._fqns, getattr(flat, "_params", None) or ()))
        return names, []

    def of_models(optimizer):
        if optimizer not in models:
            own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
            names, buffers, its_ddp = {}, [], []
            ddp = objects("DistributedDataParallel", "torch.nn.parallel.distributed")
            fsdp = objects("FullyShardedDataParallel", "torch.distributed.fsdp.fully_sharded_data_parallel")
            found = [(model, *of_ddp(model)) for model in ddp if not differs_on_purpose(model)] + [
                (None, *of_fsdp(model)) for model in fsdp
            ]
            for model, of_model, its_buffers in found:
                of_model = {key: name for key, name in of_model.items() if key in own}
                names.update(of_model)
                if of_model:
                    buffers += its_buffers
                    its_ddp += [weakref.ref(model)] if model is not None else []
            models[optimizer] = names, buffers, its_ddp
        return models[optimizer]

    def groups_of(value, ranks):
        """The groups of ranks that should hold the same."""
        groups = [ranks] if ranks else []
        if hasattr(value, "_local_tensor") and value.device_mesh.get_coordinate() is not None:
            for dimension, placement in enumerate(value.placements):
                if placement.is_replicate() and value.device_mesh.size(dimension) > 1:
                    groups.append(ranks_of(value.device_mesh.get_group(dimension)))
        return groups

    def ranks_averaged(gradient):
        """The ranks of the all_reduce that a whole gradient went through, if one did."""
        if gradient is None or hasattr(gradient, "_local_tensor") or gradient.layout != torch.strided or not is_dense(gradient):
            return None
        return tuple(reduced(gradient.data_ptr(), gradient.numel() * gradient.element_size())) or None

    def compares_state(optimizer):
        """Most of an optimizer's numbers are its state, and state that differs makes parameters that differ, one step later."""
        count = reported[optimizer] = reported.get(optimizer, 0) + 1
        return compares_all or count <= 3 or count % 8 == 0

    def collect(optimizer):
        names, buffers, _ = of_models(optimizer)
        found, has_state = {}, compares_state(optimizer)

        def add(name, value, groups, is_constant=False):
            value = getattr(value, "_local_tensor", value)
            if value.layout == torch.strided and value.numel() and value.device.type in ("cuda", "cpu") and is_dense(value):
                for ranks in groups:
                    found.setdefault(ranks, []).append((name, value, is_constant))

        for number, group in enumerate(optimizer.param_groups):
            for place, parameter in enumerate(group["params"]):
                name, ranks = names.get(id(parameter)) or (f"{place} of group {number}", ranks_averaged(parameter.grad))
                groups = groups_of(parameter, ranks)
                add(f"parameter {name}", parameter, groups)
                for key, value in optimizer.state.get(parameter, {}).items() if has_state else ():
                    if isinstance(value, torch.Tensor):
                        add(f"optimizer state {key} of {name}", value, groups_of(value, None) or groups)
        for name, reference, key, ranks, is_constant in buffers:
            value = getattr(reference(), key, None)
            if value is not None:
                add(name, value, [ranks], is_constant)
        return found

    def is_local(optimizer):
        """Whether the last forward pass of a model under DDP was in `no_sync`: its gradients were not averaged for this step."""
        found = [reference() for reference in models[optimizer][2]]
        return any(model is not None and not getattr(model, "require_forward_param_sync", True) for model in found)

    def send(optimizer, found, is_first, stream):
        for ranks in sorted(found):
            steps[ranks] = 0 if is_first else steps.get(ranks, 0) + 1
            for name, value, is_constant in found[ranks]:
                tensor(name.encode(), value.data_ptr(), value.numel() * value.element_size(), is_constant, value.is_cuda)
            end(distributed.get_rank(), ranks, steps[ranks], not is_first and is_local(optimizer), stream)

    def report(optimizer, is_first, is_launch=False):
        if not distributed.is_initialized():
            return
        try:
            found = {ranks: tensors for ranks, tensors in collect(optimizer).items() if len(ranks) > 1}
            if is_first:
                found = {ranks: tensors for ranks, tensors in found.items() if ranks not in steps}
            devices = {value.device for tensors in found.values() for _, value, _ in tensors if value.is_cuda}
            if len(devices) == 1 and not is_launch:
                with torch.cuda.device(devices.pop()):
                    send(optimizer, found, is_first, torch.cuda.current_stream().cuda_stream)
                return
            for device in devices:
                with torch.cuda.device(device):
                    wait(torch.cuda.current_stream().cuda_stream)
            send(optimizer, found, is_first, None)
        except Exception as error:
            refuse(f"{type(error).__name__}: {error}".encode())

    def before(optimizer, *_):
        if optimizer not in models and not is_inner() and not torch.cuda.is_current_stream_capturing():
            report(optimizer, True)

    def after(optimizer, *_):
        if is_inner():
            return
        if not torch.cuda.is_current_stream_capturing():
            report(optimizer, False)
            return
        if optimizer not in numbers:
            numbers[optimizer] = len(optimizers)
            optimizers.append(weakref.ref(optimizer))
        captured(torch.cuda.current_stream().cuda_stream, numbers[optimizer])

    def around_launch(number, is_over):
        optimizer = optimizers[number]()
        if optimizer is not None and (is_over or optimizer not in models):
            report(optimizer, not is_over, True)

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)
    return around_launch


def start(addresses):
    import ctypes

    def function(name, result, *arguments):
        return ctypes.CFUNCTYPE(result, *arguments)(addresses[name])

    number, size, text = ctypes.c_uint, ctypes.c_size_t, ctypes.c_char_p
    some = ctypes.POINTER(number)
    reduced = function("reduced", size, size, size, some, size)
    end = function("end", None, number, some, size, ctypes.c_ulonglong, ctypes.c_bool, ctypes.c_longlong)
    refuse = function("refuse", None, text)

    def ranks_reduced(address, length):
        room = (number * 4096)()
        return room[: reduced(address, length, room, len(room))]

    def end_of(rank, ranks, step, is_local, stream):
        end(rank, (number * len(ranks))(*ranks), len(ranks), step, is_local, -1 if stream is None else stream)

    try:
        tensor = function("tensor", None, text, size, size, ctypes.c_bool, ctypes.c_bool)
        captured = function("captured", None, size, size)
        compares_all, is_inner = addresses["compares_all"], addresses["is_inner"]
        around_launch = install(function("wait", None, size), tensor, ranks_reduced, end_of, refuse, captured, compares_all, is_inner)
        if around_launch is not None:
            kind = ctypes.CFUNCTYPE(None, size, ctypes.c_bool)
            # Kept alive as long as somebody may call it.
            start.around_launch = kind(around_launch)
            function("watch", None, kind)(start.around_launch)
    except Exception as error:
        refuse(f"{type(error).__name__}: {error}".encode())
