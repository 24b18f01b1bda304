# Which processes may be forked, and why the others are started cold.
import ast
import importlib.machinery as machinery
import os
import re
import sys

AGENT = b"torch.distributed.run"
# Variables that native libraries read when they are loaded, and glibc and the interpreter when they start. `getenv` leaves no
# trace; what Python code reads while it is imported is recorded, see `Recorder`.
BOUND = re.compile(
    rb"(?:PYTHON|LC_|LD_|GLIBC_|MALLOC_|OMP_|GOMP_|KMP_|MKL_|OPENBLAS_|GOTO_|BLIS_|NPY_|NUMEXPR_|DNNL_|ONEDNN_|ATEN_|C10_"
    rb"|KINETO_|TORCH|PYTORCH_|CUDA_|USE_|ACC_|INTEL_|I_MPI_|MKLDNN_|MPI_|OMPI_|OPENSSL_|__PYVENV|HOME$|LANG|TZ$)"
)
# Of those, what PyTorch and CUDA read later: at the first CUDA call, or when a process group is made. And what is read
# early without leaving a trace in what is kept.
FREE = re.compile(rb"(?:TORCHELASTIC_|TORCH_NCCL_|CUDA_VISIBLE_DEVICES$|TORCH_DISABLE_SHARE_RDZV_TCP_STORE$)")


class Cold(Exception):
    """This process has to be started cold; the message says why."""


class Recorder(type(os.environ)):
    """os.environ that remembers which variables were asked for."""

    asked = set()

    def __getitem__(self, name):
        self.asked.add(os.fsencode(name))
        return super().__getitem__(name)

    def __contains__(self, name):
        self.asked.add(os.fsencode(name))
        return super().__contains__(name)


def is_bound(name, asked):
    return name in asked or (BOUND.match(name) is not None and FREE.match(name) is None)


def check_environment(wanted, base, asked):
    for name in sorted(wanted.keys() | base.keys()):
        if wanted.get(name) != base.get(name) and is_bound(name, asked):
            raise Cold("%s differs, which is read before the program starts" % os.fsdecode(name))


def program_of(arguments):
    """(agent or script, its place among the arguments) of an interpreter's command line."""
    place = 1
    while arguments[place : place + 1] == [b"-u"]:
        # What PYTHONUNBUFFERED says already.
        place += 1
    rest = arguments[place:]
    if rest[:2] == [b"-m", AGENT]:
        return True, place + 1
    if not rest or rest[0].startswith(b"-"):
        option = os.fsdecode(rest[0]) if rest else "no script"
        raise Cold("only scripts and torchrun are started warm, not `python %s`" % option)
    return False, place


def check_script(script, asked, said):
    """What the interpreter would say about a wrong one, it says itself. A script that sets what was read before it began would
    have no effect with that."""
    try:
        with open(script, "rb") as file:
            source = file.read()
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        raise Cold("it is no script that can be read") from None
    if said and not any(imports_torch(node) for node in tree.body):
        raise Cold("importing torch prints something, and the script does not begin with that")
    if not any(word in source for word in (b"environ", b"putenv", b"setenv")):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            name = os.fsencode(node.value) if isinstance(node.value, str) else node.value
            if re.fullmatch(rb"[A-Za-z_][A-Za-z0-9_]*", name) and is_bound(name, asked):
                raise Cold("the script may set %s, which is read when torch is imported" % os.fsdecode(name))


def imports_torch(node):
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
    return any(name.partition(".")[0] == "torch" for name in names)


def check_shadows(directory, known):
    """A module beside the program comes before one of the same name that was imported without it."""
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
    """What was imported from files, by name at the top, and from where."""
    specs = {name: getattr(module, "__spec__", None) for name, module in sys.modules.items() if "." not in name}
    return {name: spec.origin for name, spec in specs.items() if getattr(spec, "has_location", False)}
