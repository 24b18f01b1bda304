"""Calls `begin(torch)` of `part.py`, beside this file, when a program has imported PyTorch. Python imports a module with this
name by itself, or else the shim runs it while PyTorch is being imported, or later; the program is not changed."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def import_the_users():
    """The module with this name that this one hides."""
    import importlib.machinery
    import importlib.util

    places = [os.path.abspath(entry or ".") for entry in sys.path]
    behind = sys.path[places.index(HERE) + 1 :] if HERE in places else []
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", behind)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def begin(torch):
    begun = sys.__dict__.setdefault("_ftest_begun", set())
    if HERE in begun:
        return
    begun.add(HERE)
    path = os.path.join(HERE, "part.py")
    with open(path) as file:
        # Frames of a file that is frozen are not the program's.
        code = compile(file.read(), "<frozen part>", "exec")
    part = {"__name__": "part", "__file__": path}
    exec(code, part)
    part["begin"](torch)
    with open(os.path.join(HERE, f"begun-{os.getpid()}"), "w"):
        pass


class AfterTorch:
    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                begin(module)

            spec.loader.exec_module = exec_module
        return spec


def when_imported(torch):
    """For a module that is being imported: Python's import system clears `_initializing` when that is done."""
    spec = torch.__spec__
    # Of another part that waits for the same.
    earlier = getattr(type(spec), "_initializing", None)

    class Importing(type(spec)):
        @property
        def _initializing(self):
            return self.__dict__["_initializing"]

        @_initializing.setter
        def _initializing(self, value):
            self.__dict__["_initializing"] = value
            if earlier is not None:
                earlier.fset(self, value)
            if not value and sys.modules.get("torch") is torch:
                begin(torch)

    spec.__class__ = Importing


if __name__ == "sitecustomize":
    sys.meta_path.insert(0, AfterTorch())
    import_the_users()
else:
    TORCH = sys.modules.get("torch")
    if TORCH is None:
        sys.meta_path.insert(0, AfterTorch())
    elif getattr(TORCH.__spec__, "_initializing", False):
        when_imported(TORCH)
    else:
        begin(TORCH)
