# Which processes may be forked, and why the others are started cold.
import importlib.machinery as machinery
import os
import re
import sys

# Variables that native libraries read when loaded, and that glibc, the interpreter and imports of `.pth` files read at start.
# `getenv` leaves no trace; reads by Python code during import are recorded, see `Recorder`.
BOUND = re.compile(
    rb"(?:PYTHON|LC_|LD_|GLIBC_|MALLOC_|OMP_|GOMP_|KMP_|MKL_|OPENBLAS_|GOTO_|BLIS_|NPY_|NUMEXPR_|DNNL_|ONEDNN_|ATEN_|C10_"
    rb"|COVERAGE_|COV_|SETUPTOOLS_|TQDM_|KINETO_|TORCH|PYTORCH_|CUDA_|USE_|ACC_|INTEL_|I_MPI_|MKLDNN_|MPI_|OMPI_|OPENSSL_|__PYVENV|HOME$|LANG|TZ$)"
)
# Those of them that PyTorch and CUDA read later: at the first CUDA call, or when a process group is made. Also those
# read early without a lasting effect.
FREE = re.compile(
    rb"(?:TORCHELASTIC_|TORCH_NCCL_|CUDA_VISIBLE_DEVICES$|PYTORCH_NVML_BASED_CUDA_CHECK$|TORCH_DISABLE_SHARE_RDZV_TCP_STORE$)"
)


class Cold(Exception):
    """This process has to be started cold; the message says why."""


class Recorder(type(os.environ)):
    """An os.environ that remembers which variables were read."""

    asked = set()
    plain = type(os.environ)

    def __getitem__(self, name):
        self.asked.add(os.fsencode(name))
        return super().__getitem__(name)

    def __contains__(self, name):
        self.asked.add(os.fsencode(name))
        return super().__contains__(name)

    def items(self):
        # tqdm searches all for those that begin with TQDM_, which BOUND includes. Anyone else who does this has read them
        # all.
        if sys._getframe(1).f_globals.get("__name__") == "tqdm.utils":
            return {self.decodekey(name): self.decodevalue(value) for name, value in self._data.items()}.items()
        return super().items()


def is_bound(name, asked):
    return name in asked or (BOUND.match(name) is not None and FREE.match(name) is None)


def check_environment(wanted, base, asked):
    for name in sorted(wanted.keys() | base.keys()):
        if wanted.get(name) != base.get(name) and is_bound(name, asked):
            raise Cold("%s differs, which is read before the program starts" % os.fsdecode(name))


def check_shadows(directory, known):
    """A module beside the program takes precedence over an imported one with the same name."""
    finder = machinery.FileFinder(
        directory,
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    )
    for name, origin in known.items():
        spec = finder.find_spec(name)
        if spec is not None and spec.loader is not None and spec.origin != origin:
            raise Cold("%s comes before the module of that name" % spec.origin)


def importable():
    """The modules imported from files, by top-level name, and their locations."""
    specs = {name: getattr(module, "__spec__", None) for name, module in sys.modules.items() if "." not in name}
    return {name: spec.origin for name, spec in specs.items() if getattr(spec, "has_location", False)}
