"""Calls `begin(torch)` of `part.py`, beside this file, when a program has imported PyTorch. Python imports a module with this
name by itself; the program is not changed."""

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


def part():
    import importlib.util

    spec = importlib.util.spec_from_file_location("part", os.path.join(HERE, "part.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
                part().begin(module)

            spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, AfterTorch())
import_the_users()
