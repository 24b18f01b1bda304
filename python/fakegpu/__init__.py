"""FakeGPU's Python package, on ftest's simulated GPUs: `init()` in this process, `env()` and `run()` for others.

Importing it has no effect. `ftest docs fakegpu` lists what works as in FakeGPU, and what does not.
"""

from ._environment import env, library_dir, run
from ._process import RuntimeInitResult, init, is_initialized, patch_torch
from ._refused import (
    MatmulFlopCounterMode,
    analyze_graph_memory,
    estimate_decoder_inference,
    estimate_module_memory,
    init_privateuse1,
    inspect_safetensors_checkpoint,
    load_validation_manifest,
    load_workspace_profiles,
    run_validation_manifest,
    stage,
    workspace_profile_summary,
)

__all__ = [
    "MatmulFlopCounterMode",
    "RuntimeInitResult",
    "__version__",
    "analyze_graph_memory",
    "env",
    "estimate_decoder_inference",
    "estimate_module_memory",
    "init",
    "init_privateuse1",
    "inspect_safetensors_checkpoint",
    "is_initialized",
    "library_dir",
    "load_validation_manifest",
    "load_workspace_profiles",
    "patch_torch",
    "run",
    "run_validation_manifest",
    "stage",
    "workspace_profile_summary",
]


def __getattr__(name):
    if name == "__version__":
        from ._environment import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
