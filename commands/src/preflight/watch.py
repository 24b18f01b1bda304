"""Watches PyTorch's allocator for `ftest exec --preflight`, and writes its observations beside this file when the process
ends."""

import bisect
import collections
import ctypes
import functools
import os
import re
import sys
import weakref

HERE = os.path.dirname(os.path.abspath(__file__))
# Maximum number of allocator events kept; older ones are forgotten.
EVENTS = 100_000
# Lines that are reported per GPU.
LINES = 20


def begin(torch):
    if not torch.version.cuda:
        return
    state = {"torch": torch.__version__, "devices": {}, "trouble": []}
    purposes = Purposes(torch, state)
    training = Training(torch, purposes, state)
    follow_numbers(torch)

    def attempt(step):
        try:
            step(torch, state)
        except Exception as error:
            state["trouble"].append(f"{step.__name__}: {type(error).__name__}: {error}")

    def start():
        attempt(record)
        leave(torch, state, training, purposes)

    # Before the first call into CUDA, at which the shim puts itself before all kernels, these among them.
    attempt(replace_cudnn)
    # Before the first allocation: when CUDA is initialized, or now if it is.
    torch.cuda._lazy_call(start)


def record(torch, state):
    torch.cuda.memory._record_memory_history("all", context="alloc", stacks="python", max_entries=EVENTS)
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 10):
        # With it, an event of a backward pass has the stack of the forward pass (`forward_frames`); in earlier versions it never
        # has.
        torch.autograd.set_detect_anomaly(True, check_nan=False)
        keep_one_line(torch)
    for name in ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats"):
        reset = getattr(torch._C, name, None)
        if reset is not None:
            setattr(torch._C, name, after_keeping(torch, state, reset))


def keep_one_line(torch):
    """Each node of autograd keeps its stack as text, and each event of the allocator a copy. In Megatron-LM that was a tenth of the time, and
    made a snapshot 20 times as large. `Owner.forward` reads one line."""
    import traceback

    import torch.fx.traceback

    whose, whole, owned, lines = Owner(torch), torch.fx.traceback.format_stack, {}, {}

    def format_stack():
        if torch.fx.traceback.has_preserved_node_meta():
            return whole()
        frame = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            is_users = owned.get(code)
            if is_users is None:
                is_users = owned[code] = whose.is_users(code.co_filename)
            if is_users:
                place = (code, frame.f_lineno)
                if place not in lines:
                    lines[place] = traceback.format_list(traceback.StackSummary.extract([(frame, frame.f_lineno)]))
                return lines[place]
            frame = frame.f_back
        return []

    torch.fx.traceback.format_stack = format_stack


def after_keeping(torch, state, body):
    def call(*arguments, **named):
        keep_peaks(torch, state)
        return body(*arguments, **named)

    return call


def keep_peaks(torch, state):
    for device in range(torch.cuda.device_count()):
        stats = torch.cuda.memory_stats(device)
        if not stats.get("num_device_alloc", stats.get("segment.all.allocated", 0)) and not stats.get("num_ooms", 0):
            continue
        kept = state["devices"].setdefault(device, {"index": device, "allocated_peak": 0, "reserved_peak": 0})
        for field, name in (("allocated_peak", "allocated_bytes.all.peak"), ("reserved_peak", "reserved_bytes.all.peak")):
            kept[field] = max(kept[field], stats.get(name, 0))
        kept["retries"], kept["ooms"] = stats.get("num_alloc_retries", 0), stats.get("num_ooms", 0)


def leave(torch, state, training, purposes):
    """Writes the observations at the end of the process, even one without Python's exit handlers."""
    import atexit

    pid, is_done, leave_now = os.getpid(), [], os._exit

    def finish():
        # A forked child has none of its parent's GPU memory.
        if is_done or os.getpid() != pid:
            return
        is_done.append(True)
        try:
            write(torch, state, training, purposes)
        except Exception as error:
            print(f"ftest exec: preflight: PyTorch's allocator cannot be read: {type(error).__name__}: {error}", file=sys.stderr)

    def leave_without_handlers(status):
        if os.getpid() != pid:
            leave_now(status)
        finish()
        # The shim's report has what was taken from the GPU.
        ctypes.CDLL(None).ftest_leave(status)

    atexit.register(finish)
    os._exit = leave_without_handlers


def write(torch, state, training, purposes):
    import json

    keep_peaks(torch, state)
    snapshot = torch.cuda.memory._snapshot()
    whose = Owner(torch)
    for device, kept in state["devices"].items():
        trace = snapshot["device_traces"][device] if device < len(snapshot["device_traces"]) else []
        segments = [segment for segment in snapshot["segments"] if segment["device"] == device]
        blocks = [block for segment in segments for block in segment["blocks"] if block["state"] == "active_allocated"]
        peak, live = live_at_peak(blocks, trace)
        kept["at_peak"] = by_line(live.values(), whose)
        kept["by_purpose"] = purposes.divide(device, live, trace, peak)
        kept["history_is_whole"] = len(trace) < EVENTS
        refused = [event for event in trace if event["action"] == "oom"]
        if refused:
            kept["refused"] = {"bytes": refused[-1]["size"], **whose.site(refused[-1])}
    report = {
        **state,
        "pid": os.getpid(),
        "architectures": torch.cuda.get_arch_list(),
        "untrained": training.untrained(),
        "devices": list(state["devices"].values()),
    }
    path = os.path.join(HERE, f"torch-{os.getpid()}.json")
    with open(path + ".part", "w") as file:
        json.dump(report, file)
    os.rename(path + ".part", path)


def read_last_step():
    """After how many steps the process is stopped; None if not at all."""
    try:
        with open(os.path.join(HERE, "steps")) as file:
            return int(file.read())
    except FileNotFoundError:
        return None


class Training:
    """Whether a program that was about to train did: a run that ended before the first backward pass or the first step of an optimizer
    does not show what these need."""

    def __init__(self, torch, purposes, state):
        self.torch, self.whose, self.purposes, self.state = torch, Owner(torch), purposes, state
        self.optimizer = self.parameter = None
        self.passes = self.steps = 0
        # Of each optimizer, while it exists.
        self.taken, self.last_step = weakref.WeakKeyDictionary(), read_last_step()
        self.is_evaluated, self.parameters = False, []
        optimizer, module, this = torch.optim.Optimizer, torch.nn.Module, self

        def after(owner, name, note):
            body = getattr(owner, name)

            @functools.wraps(body)
            def call(*arguments, **named):
                result = body(*arguments, **named)
                note(*arguments, **named)
                return result

            setattr(owner, name, call)

        def made(optimizer, *_, **__):
            this.optimizer = this.optimizer or this.line()
            this.purposes.optimizers.append(weakref.ref(optimizer))
            this.taken[optimizer] = 0

        def stepped(optimizer, *_, **__):
            this.steps += 1
            this.taken[optimizer] = this.taken.get(optimizer, 0) + 1

        def evaluates(module, mode=True, requires_grad=True):
            this.is_evaluated |= not (mode and requires_grad)

        def registered(module, name, parameter):
            if parameter is not None and parameter.requires_grad:
                this.parameter = this.parameter or this.line()
                this.parameters.append(weakref.ref(parameter))

        def replicated(*_, **__):
            # After the first step, rank 0 tells the others in which buckets it reduces gradients.
            this.last_step = this.last_step if this.last_step is None else max(this.last_step, 1)

        after(torch.nn.parallel.DistributedDataParallel, "__init__", replicated)
        after(optimizer, "__init__", made)
        after(module, "train", evaluates)
        after(module, "requires_grad_", evaluates)
        sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(stepped)
        sys.modules["torch.nn.modules.module"].register_module_parameter_registration_hook(registered)

        class Engine(type(torch.autograd.Variable._execution_engine)):
            """Megatron calls it itself, `Tensor.backward` and `torch.autograd.grad` do so for others."""

            def run_backward(self, *arguments, **named):
                # Not one that another pass runs, to compute again what was not kept.
                is_outermost = torch._C._current_graph_task_id() == -1
                if is_outermost:
                    this.stop_if_enough()
                result = super().run_backward(*arguments, **named)
                this.passes += 1
                if is_outermost:
                    this.purposes.note()
                return result

        torch.autograd.Variable._execution_engine = Engine()

    def stop_if_enough(self):
        """Ends the process where it has made as many steps as it was asked for: with each optimizer, as some programs have several. What
        belongs to the last step is done when the next backward pass begins."""
        is_enough = self.last_step is not None and self.taken and min(self.taken.values()) >= self.last_step
        if not is_enough or not self.torch.cuda.is_initialized():
            return
        self.torch.cuda.synchronize()
        self.state["stopped_after"] = self.last_step
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if "multiprocessing" in sys.modules:
            for child in sys.modules["multiprocessing"].active_children():
                child.terminate()
        os._exit(0)

    def line(self):
        frame = sys._getframe(2)
        while frame is not None and not self.whose.is_users(frame.f_code.co_filename):
            frame = frame.f_back
        return f" ({frame.f_code.co_filename}:{frame.f_lineno})" if frame else ""

    def untrained(self):
        """Why the run shows no training, or None."""
        if self.optimizer is not None:
            missing = [what for what, count in (("no backward pass", self.passes), ("no step of the optimizer", self.steps)) if not count]
            return f"it made an optimizer{self.optimizer}, but {' and '.join(missing)} ran" if missing else None
        left = [parameter for parameter in (reference() for reference in self.parameters) if parameter is not None]
        is_frozen = left and not any(parameter.requires_grad for parameter in left)
        if self.parameter is None or self.passes or self.is_evaluated or is_frozen:
            return None
        return (
            f"its parameters{self.parameter} require gradients, but no backward pass ran (a model that is not meant to be trained says so by "
            "`model.eval()` or `model.requires_grad_(False)`)"
        )


class Purposes:
    """Which blocks of the allocator hold parameters, gradients and optimizer state. Each is noted while it exists, with the number of
    allocations that its GPU had made by then: the last one at its address is its own."""

    NAMES = ("parameters", "gradients", "optimizer_state")

    def __init__(self, torch, state):
        self.torch, self.trouble = torch, state["trouble"]
        # As far back as the allocator's events, each of which has few tensors that exist.
        self.noted = collections.deque(maxlen=10 * EVENTS)
        self.parameters, self.optimizers, this = [], [], self

        def registered(module, name, parameter):
            if parameter is not None:
                this.parameters.append(weakref.ref(parameter))

        def stepped(*_):
            # In a compiled step it would only stop the compiler.
            if not torch.compiler.is_compiling():
                this.note()

        sys.modules["torch.nn.modules.module"].register_module_parameter_registration_hook(registered)
        sys.modules["torch.optim.optimizer"].register_optimizer_step_pre_hook(stepped)
        sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(stepped)

    def note(self):
        """Notes what exists now. The program must not notice."""
        try:
            self.note_tensors()
        except Exception as error:
            sentence = f"memory by purpose: {type(error).__name__}: {error}"
            if sentence not in self.trouble:
                self.trouble.append(sentence)

    def note_tensors(self):
        optimizers = [optimizer for optimizer in (reference() for reference in self.optimizers) if optimizer is not None]
        parameters = [parameter for parameter in (reference() for reference in self.parameters) if parameter is not None]
        parameters += [parameter for optimizer in optimizers for group in optimizer.param_groups for parameter in group["params"]]
        # Megatron's distributed data parallel keeps gradients in buffers of its own.
        gradients = [getattr(parameter, name, None) for parameter in parameters for name in ("grad", "main_grad")]
        held = [state for optimizer in optimizers for state in optimizer.state.values() if isinstance(state, dict)]
        counts, seen = {}, set()
        for purpose, tensors in enumerate((parameters, gradients, [value for state in held for value in state.values()])):
            for tensor in tensors:
                address = self.address(tensor)
                if address is not None and (purpose, address) not in seen:
                    seen.add((purpose, address))
                    device = tensor.device.index
                    if device not in counts:
                        counts[device] = self.torch.cuda.memory_stats(device).get("allocation.all.allocated", 0)
                    self.noted.append((purpose, device, address, counts[device]))

    def address(self, tensor):
        # The part that a rank has of a distributed tensor.
        tensor = getattr(tensor, "_local_tensor", tensor)
        if not isinstance(tensor, self.torch.Tensor) or not tensor.is_cuda:
            return None
        try:
            return tensor.untyped_storage().data_ptr()
        except (RuntimeError, NotImplementedError):
            # A tensor that is made of others has no memory itself.
            return None

    def divide(self, device, live, trace, peak):
        """The bytes in `live`, the blocks at the peak by address, which were allocated before event number `peak`, by purpose; None if no
        parameters were seen."""
        self.note()
        places = collections.defaultdict(list)
        for place, event in enumerate(trace):
            if event["action"] == "alloc":
                places[event["addr"]].append(place)
        # The first events are no longer kept; allocations are numbered as the GPU counts them.
        allocations = [place for place, event in enumerate(trace) if event["action"] == "alloc"]
        first = self.torch.cuda.memory_stats(device).get("allocation.all.allocated", 0) - len(allocations)

        def allocated(address, until):
            """The place of the last allocation at `address` before `until`; -1 if it is older than the events."""
            known = places.get(address, [])
            index = bisect.bisect_left(known, until)
            return known[index - 1] if index else -1

        held = {}
        for purpose, noted_device, address, count in self.noted:
            if noted_device == device and address in live:
                kept = max(count - first, 0)
                until = allocations[kept] if kept < len(allocations) else len(trace)
                if allocated(address, until) == allocated(address, peak):
                    held[address] = min(purpose, held.get(address, purpose))
        if 0 not in (purpose for purpose, noted_device, *_ in self.noted if noted_device == device):
            return None
        bytes_of = dict.fromkeys((*self.NAMES, "other"), 0)
        for address, (size, _) in live.items():
            bytes_of[self.NAMES[held[address]] if address in held else "other"] += size
        return bytes_of


def follow_numbers(torch):
    """Programs print the numbers that they read by `item()`, but some decide by them: a comparison of one that nobody computed is
    noted."""
    is_known, decides = ctypes.CDLL(None).ftest_is_known, ctypes.CDLL(None).ftest_decides
    is_known.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    whose, item = Owner(torch), torch.Tensor.item

    def place():
        frame = sys._getframe(2)
        while frame.f_back is not None and not whose.is_users(frame.f_code.co_filename):
            frame = frame.f_back
        return f"{frame.f_code.co_filename}:{frame.f_lineno}"

    class Unknown(float):
        def __reduce__(self):
            return float, (float(self),)

    def deciding(name):
        body = getattr(float, name)

        def call(self, *others):
            decides(f"{place()} decides by a number that nobody computed, read by item() at {self.origin}".encode())
            return body(self, *others)

        setattr(Unknown, name, call)

    def passing(name):
        body = getattr(float, name)

        def call(self, *others):
            result = body(self, *others)
            return unknown(result, self.origin) if type(result) is float else result

        setattr(Unknown, name, call)

    def unknown(value, origin):
        number = Unknown(value)
        number.origin = origin
        return number

    for name in ("__bool__", "__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__int__", "__floor__", "__ceil__", "__trunc__"):
        deciding(name)
    # A class that defines equality has no hash otherwise.
    Unknown.__hash__ = float.__hash__
    for name in ("add", "sub", "mul", "truediv", "pow", "mod"):
        passing(f"__{name}__")
        passing(f"__r{name}__")
    for name in ("__neg__", "__pos__", "__abs__", "__round__"):
        passing(name)

    @functools.wraps(item)
    def read(self):
        if type(self) is not torch.Tensor or not self.is_cuda or not self.is_floating_point():
            return item(self)
        known = is_known(self.data_ptr(), self.element_size())
        value = item(self)
        return value if known else unknown(value, place())

    torch.Tensor.item = read


def live_at_peak(blocks, trace):
    """The number of the event before which the peak was, and the blocks that were allocated then, by address, as (bytes, who allocated
    it): from the current ones, going backwards through the events."""
    now = best = sum(block["requested_size"] for block in blocks)
    peak = len(trace)
    for place in range(len(trace) - 1, -1, -1):
        event = trace[place]
        if event["action"] == "alloc":
            now -= event["size"]
        elif event["action"] == "free_requested":
            now += event["size"]
        if now > best:
            best, peak = now, place
    live = {block["address"]: (block["requested_size"], block) for block in blocks}
    for event in reversed(trace[peak:]):
        if event["action"] == "alloc":
            live.pop(event["addr"], None)
        elif event["action"] == "free_requested":
            live[event["addr"]] = (event["size"], None)
    # The origin of blocks freed since then is in the earlier events.
    unknown = {address for address, (_, source) in live.items() if source is None}
    for event in reversed(trace[:peak]):
        if not unknown:
            break
        if event["action"] == "alloc" and event["addr"] in unknown:
            unknown.discard(event["addr"])
            live[event["addr"]] = (event["size"], event)
    return peak, live


def by_line(live, whose):
    lines = {}
    for size, source in live:
        site = whose.site(source)
        line = lines.setdefault(tuple(site.values()), {**site, "bytes": 0, "count": 0, "largest": 0})
        line["bytes"] += size
        line["count"] += 1
        line["largest"] = max(line["largest"], size)
    return sorted(lines.values(), key=lambda line: (-line["bytes"], line["file"], line["line"]))[:LINES]


class Owner:
    """The program line that an allocation is from: the innermost that belongs neither to Python nor to an installed
    package."""

    def __init__(self, torch):
        import sysconfig

        self.torch = os.path.dirname(torch.__file__) + os.sep
        self.standard = sysconfig.get_paths()["stdlib"] + os.sep

    def is_users(self, file):
        installed = "/site-packages/" in file or "/dist-packages/" in file
        return not (installed or file.startswith(("<frozen", self.torch, self.standard)))

    def site(self, source):
        """The line of a block or an event; for None, which the events no longer contain."""
        source = source or {}
        frames = [frame for frame in source.get("frames") or [] if not frame["filename"].startswith("<frozen")]
        own = [frame for frame in frames if self.is_users(frame["filename"])]
        forward = [] if own else self.forward(source)
        chosen = own or forward or frames
        if not chosen:
            return {"file": "", "line": 0, "function": "", "backward": False}
        first = chosen[0]
        return {"file": first["filename"], "line": first["line"], "function": first["name"], "backward": bool(forward)}

    def forward(self, source):
        """The threads of a backward pass run no Python: the user's frames of the operator being differentiated, innermost
        first."""
        lines = [re.match(r'\s*File "(.*)", line (\d+), in (.*)', text) for text in source.get("forward_frames") or []]
        frames = [{"filename": line[1], "line": int(line[2]), "name": line[3]} for line in reversed(lines) if line]
        return [frame for frame in frames if self.is_users(frame["filename"])]


def replace_cudnn(torch, state):
    """cuDNN is not simulated, and without it PyTorch would allocate other buffers. Its operators get results as predicted by
    PyTorch's own rules; workspaces, which depend on the algorithm that cuDNN chooses, are unknown."""
    from torch.utils._pytree import tree_map_only

    aten, modes = torch.ops.aten, []

    def like(tensor):
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)

    def predicted(operator, *arguments):
        if not modes:
            # Takes half a second, which a program without cuDNN should not pay.
            from torch._subclasses.fake_tensor import FakeTensorMode

            modes.append(FakeTensorMode())
        with modes[0]:
            results = operator(*tree_map_only(torch.Tensor, like, arguments))
        return tree_map_only(torch.Tensor, like, results)

    def convolve(input, weight, bias, padding, stride, dilation, transposed, output_padding, groups):
        return predicted(aten.convolution.default, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)

    def convolution(input, weight, padding, stride, dilation, groups, *_):
        return convolve(input, weight, None, padding, stride, dilation, False, [0] * len(padding), groups)

    def transposed(input, weight, padding, output_padding, stride, dilation, groups, *_):
        return convolve(input, weight, None, padding, stride, dilation, True, output_padding, groups)

    def convolution_relu(input, weight, bias, stride, padding, dilation, groups):
        return convolve(input, weight, bias, padding, stride, dilation, False, [0] * len(padding), groups)

    def convolution_add_relu(input, weight, z, alpha, bias, stride, padding, dilation, groups):
        return convolution_relu(input, weight, bias, stride, padding, dilation, groups)

    def convolution_backward(*arguments):
        return predicted(aten.convolution_backward.default, *arguments)

    def batch_norm(input, weight, bias, running_mean, running_var, training, *_):
        saved = weight.numel() if training else 0
        return torch.empty_like(input), weight.new_empty(saved), weight.new_empty(saved), input.new_empty(0, dtype=torch.uint8)

    def batch_norm_backward(input, grad_output, weight, *_):
        return torch.empty_like(input), torch.empty_like(weight), torch.empty_like(weight)

    def attention(*arguments, **named):
        return predicted(lambda *given: aten._scaled_dot_product_cudnn_attention.default(*given, **named), *arguments)

    def attention_backward(*arguments, **named):
        return predicted(lambda *given: aten._scaled_dot_product_cudnn_attention_backward.default(*given, **named), *arguments)

    library = torch.library.Library("aten", "IMPL")
    # It must live as long as the process.
    replace_cudnn.library = library
    for name, body in {
        "cudnn_convolution": convolution,
        "cudnn_convolution_transpose": transposed,
        "cudnn_convolution_relu": convolution_relu,
        "cudnn_convolution_add_relu": convolution_add_relu,
        "convolution_backward": convolution_backward,
        "cudnn_batch_norm": batch_norm,
        "cudnn_batch_norm_backward": batch_norm_backward,
        "_scaled_dot_product_cudnn_attention": attention,
        "_scaled_dot_product_cudnn_attention_backward": attention_backward,
    }.items():
        if hasattr(aten, name):
            library.impl(name, body, "CUDA")
