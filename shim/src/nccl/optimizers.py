def install(dead):
    """Looks for optimizers whose parameters get no gradients while those of a model get some that no optimizer has: it was made for
    another model than the one that trains. The given function records that. False if PyTorch is still being imported."""
    import gc
    import sys
    import weakref

    torch = sys.modules.get("torch")
    if "torch.optim.optimizer" not in sys.modules or not hasattr(torch, "nn"):
        return False
    from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

    # By optimizer: how many steps it made without any gradient. One that had a gradient has None.
    steps = weakref.WeakKeyDictionary()

    def parameters_of(optimizer):
        return [parameter for group in optimizer.param_groups for parameter in group["params"]]

    def unstepped():
        """The name of a module's parameter that has a gradient, and that no optimizer has; and the module's class."""
        found = gc.get_objects()
        optimizers = [one for one in found if issubclass(type(one), Optimizer) and hasattr(one, "param_groups")]
        known = {id(parameter) for optimizer in optimizers for parameter in parameters_of(optimizer)}
        for module in found:
            if issubclass(type(module), torch.nn.Module):
                for name, parameter in module.__dict__.get("_parameters", {}).items():
                    if parameter is not None and parameter.grad is not None and id(parameter) not in known:
                        return name, type(module).__name__
        return None

    def stepped(optimizer, *_):
        count = steps.get(optimizer, 0)
        if count is None:
            return
        try:
            parameters = parameters_of(optimizer)
            if not parameters or any(parameter.grad is not None for parameter in parameters):
                steps[optimizer] = None
                return
            steps[optimizer] = count + 1
            # The first step of an optimizer may come before it is its turn.
            place = unstepped() if count == 1 else None
            if place is not None:
                name, kind = place
                dead(f"{len(parameters)}".encode(), f"`{name}` of a {kind}".encode())
        except Exception:
            # Nothing is said about an optimizer of another make.
            steps[optimizer] = None

    register_optimizer_step_post_hook(stepped)
    return True


def start(addresses):
    import ctypes

    dead = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)(addresses["dead"])
    if install(dead):
        ctypes.CFUNCTYPE(None)(addresses["installed"])()
