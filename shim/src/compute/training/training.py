def install(wait, tensor, end, refuse, is_inner):
    """Enumerates gradients, optimizer state and parameters by name after each step of an optimizer. The given functions read the
    numbers; no PyTorch operator is called. False if PyTorch is still being imported."""
    import array
    import gc
    import sys
    import weakref

    torch = sys.modules.get("torch")
    if "torch.optim.optimizer" not in sys.modules or getattr(torch.__spec__, "_initializing", False):
        return False
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    GRADIENT, STATE, PARAMETER, ALL = range(4)
    # Wrappers, and where each keeps what it wraps: a model has the same names with and without them.
    WRAPPERS = {
        "DistributedDataParallel": "module",
        "DataParallel": "module",
        "OptimizedModule": "_orig_mod",
        "CheckpointWrapper": "_checkpoint_wrapped_module",
    }
    # By optimizer: its number, and how many steps it made. By optimizer: its parameters' names by id.
    steps, names = weakref.WeakKeyDictionary(), weakref.WeakKeyDictionary()
    refused = set()

    def refuse_once(role, why):
        if (role, why) not in refused:
            refused.add((role, why))
            refuse(role, why.encode())

    def kinds(module):
        """The names of PyTorch's own classes that it is one of."""
        return [kind.__name__ for kind in type(module).__mro__ if kind.__module__.startswith("torch.")]

    def inner(module):
        """What a wrapper wraps, or the module itself."""
        places = [WRAPPERS[kind] for kind in kinds(module) if kind in WRAPPERS]
        wrapped = module._modules.get(places[0]) if places else None
        return module if wrapped is None else inner(wrapped)

    def parameters_of(module, prefix, seen):
        """Every name of every parameter, tied ones under each of their names, as `state_dict` has them."""
        module = inner(module)
        if "FullyShardedDataParallel" in kinds(module):
            raise NotImplementedError("FSDP's first version shards parameters that it has flattened and joined: use `fully_shard` (FSDP2)")
        if id(module) in seen:
            return
        for name, parameter in module._parameters.items():
            if parameter is not None:
                yield prefix + name, parameter
        for name, child in module._modules.items():
            if child is not None:
                yield from parameters_of(child, f"{prefix}{name}.", seen | {id(module)})

    def models():
        """The live modules that are no part of another: the class, and the names by id, of each."""
        modules = [found for found in gc.get_objects() if issubclass(type(found), torch.nn.Module)]
        children = {id(child) for module in modules for child in module.__dict__.get("_modules", {}).values()}
        for module in modules:
            # One that is being made, or failed to be, has no parameters.
            if id(module) not in children and "_parameters" in module.__dict__:
                found = {}
                for name, parameter in parameters_of(module, "", frozenset()):
                    found.setdefault(id(parameter), []).append(name)
                yield type(inner(module)).__qualname__, found

    def names_of(optimizer):
        own = {
            id(parameter): f"parameter {place} of group {number}, which no module has"
            for number, group in enumerate(optimizer.param_groups)
            for place, parameter in enumerate(group["params"])
        }
        known = names.get(optimizer)
        if known is None or known.keys() != own.keys():
            # First the model that has most of the optimizer's parameters.
            found = [(kind, model) for kind, model in models() if not own.keys().isdisjoint(model)]
            found.sort(key=lambda pair: (-len(own.keys() & pair[1].keys()), pair[0]))
            known, taken = {}, {}
            for parameter, without in own.items():
                kind, its_names = next(((kind, model[parameter]) for kind, model in found if parameter in model), (None, [without]))
                known[parameter] = [f"{kind}.{name}" if name in taken else name for name in its_names]
                for name in known[parameter]:
                    if name in taken:
                        raise NotImplementedError(f"two parameters of one optimizer have the name `{name}`")
                    taken[name] = parameter
            names[optimizer] = known
        return known

    def add(role, name, value):
        """Records a tensor, or this rank's shard of a DTensor."""
        whole, local, offset = value.shape, value, [0] * value.dim()
        if hasattr(value, "_local_tensor"):
            from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

            if value.device_mesh.get_coordinate() is None:
                return
            if any(placement.is_partial() for placement in value.placements):
                raise NotImplementedError(f"`{name}` is a DTensor that is not summed up yet (Partial)")
            shape, offset = compute_local_shape_and_global_offset(whole, value.device_mesh, value.placements)
            local = value._local_tensor
            if tuple(local.shape) != tuple(shape):
                raise NotImplementedError(f"`{name}` is a DTensor with shards of another shape than its placements say")
        if local.layout != torch.strided or is_traceable_wrapper_subclass(local) or local.device.type not in ("cuda", "cpu"):
            kind = type(local).__name__ if local.layout == torch.strided else str(local.layout)
            raise NotImplementedError(f"`{name}` is a {kind} on the device {local.device}")
        if local.numel():
            sizes = [*whole, *offset, *local.shape, *local.stride()]
            tensor(role, name.encode(), str(local.dtype).removeprefix("torch.").encode(), local.data_ptr(), len(whole), sizes)

    def add_state(name, value):
        if isinstance(value, torch.Tensor):
            add(STATE, name, value)
        elif isinstance(value, (int, float)):
            number = array.array("d", [value])
            tensor(STATE, name.encode(), b"float64", number.buffer_info()[0], 0, [])
        elif isinstance(value, dict):
            for key, part in value.items():
                add_state(f"{key} in {name}", part)
        elif isinstance(value, (list, tuple)):
            for place, part in enumerate(value):
                add_state(f"{place} in {name}", part)
        elif value is not None and not isinstance(value, str):
            raise NotImplementedError(f"{name} is a {type(value).__name__}")

    def attempt(role, add_it, *arguments):
        try:
            add_it(*arguments)
        except NotImplementedError as reason:
            refuse_once(role, str(reason))

    def record(optimizer, number, step):
        if torch.cuda.is_current_stream_capturing():
            raise NotImplementedError("an optimizer's step is in a CUDA graph")
        known = names_of(optimizer)
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for device in {parameter.device for parameter in parameters if parameter.is_cuda}:
            with torch.cuda.device(device):
                wait(torch.cuda.current_stream().cuda_stream)
        for parameter in parameters:
            for name in known[id(parameter)]:
                if parameter.grad is not None:
                    attempt(GRADIENT, add, GRADIENT, name, parameter.grad)
                for key, value in optimizer.state.get(parameter, {}).items():
                    attempt(STATE, add_state, f"{key} of {name}", value)
                attempt(PARAMETER, add, PARAMETER, name, parameter)
        end(number, step)

    def after(optimizer, *_):
        if is_inner():
            return
        number, step = steps.get(optimizer, (len(steps), 0))
        steps[optimizer] = number, step + 1
        try:
            record(optimizer, number, step + 1)
        except NotImplementedError as reason:
            refuse_once(ALL, str(reason))
        except Exception as error:
            refuse_once(ALL, f"{type(error).__name__}: {error}")

    register_optimizer_step_post_hook(after)
    return True


def start(addresses):
    import ctypes

    def function(name, *arguments):
        return ctypes.CFUNCTYPE(None, *arguments)(addresses[name])

    number, size, text = ctypes.c_uint, ctypes.c_size_t, ctypes.c_char_p
    refuse = function("refuse", number, text)
    tensor = function("tensor", number, text, text, size, size, ctypes.POINTER(ctypes.c_uint64))

    def tensor_of(role, name, dtype, address, dimensions, sizes):
        tensor(role, name, dtype, address, dimensions, (ctypes.c_uint64 * len(sizes))(*sizes))

    try:
        end = function("end", number, ctypes.c_ulonglong)
        if not install(function("wait", size), tensor_of, end, refuse, addresses["is_inner"]):
            function("later")()
    except Exception as error:
        refuse(3, f"{type(error).__name__}: {error}".encode())
