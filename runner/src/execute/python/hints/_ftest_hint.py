# Only explains why `import torch` fails in this environment outside ftest: the libraries that PyTorch requires are not
# installed, because the simulated GPU provides them. Does nothing if that is loaded.
import os
import sys

HINT = "ftest: this environment has PyTorch without NVIDIA's libraries; the simulated GPU replaces them. "
if "FTEST_SCRATCH" in os.environ:
    # In a suite. Cases with a cluster have it, and steps of a fixture that declares PyTorch.
    HINT += "Here there is none: give the case a `cluster`, or start the program as `fgpu python ...`"
else:
    HINT += "Run the program as `fgpu python ...`, under `ftest exec`, or as a case of a suite that has a `cluster`"


def add_note(error):
    if hasattr(error, "add_note"):
        error.add_note(HINT)
    elif error.args:
        # Before Python 3.11.
        error.args = ("%s\n%s" % (error.args[0], HINT),) + error.args[1:]
        if isinstance(error, ImportError):
            error.msg = error.args[0]


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "torch":
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        run = getattr(getattr(spec, "loader", None), "exec_module", None)
        if run is not None:

            def exec_module(module):
                try:
                    run(module)
                except (ImportError, OSError, ValueError) as error:
                    add_note(error)
                    raise

            spec.loader.exec_module = exec_module
        return spec


if "libfakegpu" not in os.environ.get("LD_PRELOAD", ""):
    sys.meta_path.insert(0, Finder)
