"""Names that FakeGPU has and ftest does not: each can be imported, and when called reports what to do instead."""

ESTIMATES = "ftest runs programs and does not estimate them"

REFUSED = {
    "MatmulFlopCounterMode": "torch.utils.flop_counter.FlopCounterMode counts floating-point operations",
    "analyze_graph_memory": ESTIMATES,
    "estimate_decoder_inference": ESTIMATES,
    "estimate_module_memory": f"{ESTIMATES}: run a step and read torch.cuda.max_memory_allocated()",
    "init_privateuse1": "PyTorch's own CUDA backend runs: use fakegpu.init()",
    "inspect_safetensors_checkpoint": ESTIMATES,
    "load_validation_manifest": "write a suite: `ftest docs suites`",
    "load_workspace_profiles": ESTIMATES,
    "run_validation_manifest": "write a suite, and run it with `ftest SUITE`: `ftest docs suites`",
    "stage": "it marks the stages of FakeGPU's preflight, which ftest does not have",
    "workspace_profile_summary": ESTIMATES,
}


def refused(name):
    def function(*arguments, **named):
        raise NotImplementedError(f"fakegpu.{name} is not part of ftest: {REFUSED[name]}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Not part of ftest: {REFUSED[name]}. Raises NotImplementedError."
    return function


globals().update({name: refused(name) for name in REFUSED})
