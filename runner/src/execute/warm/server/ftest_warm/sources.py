# The program's own source files, examined before they run: which of them would notice a warm start.
import ast
import os
import re

from .checks import Cold, is_bound

# Bytes: examining more takes as long as a cold start.
MOST_SOURCE = 2 << 20
SETS_VARIABLES = re.compile(rb"environ|putenv|setenv")
# Text in programs that start their own Python processes. A program that is not recognized starts them cold.
STARTS_PROCESSES = re.compile(rb"multiprocessing|subprocess|spawn|accelerate|lightning|launch")

# Calls and methods whose results do not depend on the order of a set, methods that return another set, and operators of both
# kinds.
ORDERLESS = {"all", "any", "bool", "frozenset", "isinstance", "len", "max", "min", "set", "sorted", "type"}
CHANGES = {"add", "clear", "difference_update", "discard", "intersection_update", "isdisjoint", "issubset", "issuperset", "remove"}
CHANGES |= {"symmetric_difference_update", "update"}
SETS = {"copy", "difference", "intersection", "symmetric_difference", "union"}


class Source:
    """One file of the program. `tree` is None if it cannot be parsed as Python: then it is wrong in any process."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self.text = file.read()
        try:
            self.tree = ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.tree = None

    def imports(self, roots):
        """Files that it may import, among those below `roots` and beside it."""
        for node in ast.walk(self.tree) if self.tree is not None else ():
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from files_of(alias.name, roots)
            elif isinstance(node, ast.ImportFrom):
                places = roots
                if node.level:
                    place = os.path.dirname(self.path)
                    for _ in range(node.level - 1):
                        place = os.path.dirname(place)
                    places = [place]
                stem = node.module + "." if node.module else ""
                for alias in node.names:
                    yield from files_of(stem + alias.name, places)


def files_of(name, places):
    """The files run by importing this name, as far as they are below `places`."""
    for place in places:
        for part in name.split("."):
            place = os.path.join(place, part)
            for file in (place + ".py", os.path.join(place, "__init__.py")):
                if os.path.isfile(file):
                    yield file


def own_sources(main, roots):
    """`main` and, if there are `roots`, the files that it imports from there, directly or indirectly; `main` first."""
    found, queue, size = {}, [main], 0
    while queue:
        path = queue.pop()
        if path in found:
            continue
        try:
            source = found[path] = Source(path)
        except OSError:
            continue
        size += len(source.text)
        if size > MOST_SOURCE:
            raise Cold("the program has more than %d MiB of source files, too many to look through" % (MOST_SOURCE >> 20))
        queue.extend(source.imports(roots))
    return list(found.values())


def check_sources(sources, asked, said):
    """Raises Cold for code that would have no effect, or a different one, in a process that has imported PyTorch and shares its
    hash seed."""
    if not sources or sources[0].tree is None:
        raise Cold("it is not a script that can be read")
    if said and not any(imports_torch(node) for node in sources[0].tree.body):
        raise Cold("importing torch prints something, and the script does not begin with that")
    for source in sources:
        if source.tree is None:
            continue
        who = "the script" if source is sources[0] else source.path
        if SETS_VARIABLES.search(source.text):
            name = bound_name(source.tree, asked)
            if name is not None:
                raise Cold("%s may set %s, which is read when torch is imported" % (who, os.fsdecode(name)))
        line = Order(source.tree).line()
        if line is not None:
            raise Cold("%s, line %d, may depend on the order of a set or on hash(), which all forks have in common" % (who, line))


def bound_name(tree, asked):
    """A variable that counts when torch is imported, if its name is in the code other than to read it."""
    nodes = list(ast.walk(tree))
    only_read = {node for reader in nodes for node in names_read(reader)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)) and node not in only_read:
            name = os.fsencode(node.value) if isinstance(node.value, str) else node.value
            if re.fullmatch(rb"[A-Za-z_][A-Za-z0-9_]*", name) and is_bound(name, asked):
                return name
    return None


def names_read(node):
    """What `node` only reads by: `environ.get("A")`, `getenv("A")`, `environ["A"]`, `"A" in environ`."""
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        return node.args[:1] if name in ("get", "getenv") else []
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return [node.slice]
    if isinstance(node, ast.Compare) and all(isinstance(operator, (ast.In, ast.NotIn)) for operator in node.ops):
        return [node.left]
    return []


def imports_torch(node):
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
    return any(name.partition(".")[0] == "torch" for name in names)


class Order:
    """Where a file may depend on the seed of hash(): each started process draws one, and forks share theirs."""

    def __init__(self, tree):
        self.nodes = list(ast.walk(tree))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    def line(self):
        """The first line; None if there is none."""
        lines = [node.lineno for node in self.nodes if self.is_hash(node) or (self.is_set(node) and not self.harmless(node))]
        return min(lines, default=None)

    @staticmethod
    def calls(node, names):
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names

    def is_hash(self, node):
        return self.calls(node, {"hash"}) and not all(self.is_number(word) for word in node.args)

    def is_set(self, node):
        if isinstance(node, ast.Set):
            return not all(self.is_number(element) for element in node.elts)
        return isinstance(node, ast.SetComp) or self.calls(node, {"set", "frozenset"})

    @staticmethod
    def is_number(node):
        # hash() of a number is the same in every process.
        return isinstance(node, ast.Constant) and isinstance(node.value, (int, float, complex, type(None)))

    def harmless(self, node, seen=frozenset()):
        """Whether nothing depends on the order of the set that this expression returns."""
        parent = self.parents[node]
        if isinstance(parent, (ast.Compare, ast.Expr, ast.Assert)):
            return True
        if isinstance(parent, (ast.If, ast.While, ast.IfExp)):
            return node is parent.test or (isinstance(parent, ast.IfExp) and self.harmless(parent, seen))
        if isinstance(parent, ast.UnaryOp):
            return True
        if isinstance(parent, (ast.BinOp, ast.BoolOp)):
            return self.harmless(parent, seen)
        if isinstance(parent, ast.Call) and node is not parent.func:
            method = parent.func.attr if isinstance(parent.func, ast.Attribute) else None
            return self.calls(parent, ORDERLESS) or method in SETS | CHANGES - {"update"}
        if isinstance(parent, ast.Attribute):
            call = self.parents[parent]
            if not isinstance(call, ast.Call) or call.func is not parent:
                return False
            return parent.attr in CHANGES or (parent.attr in SETS and self.harmless(call, seen))
        if isinstance(parent, ast.comprehension):
            made = self.parents[parent]
            return isinstance(made, ast.SetComp) or (isinstance(made, (ast.GeneratorExp, ast.ListComp)) and self.harmless(made, seen))
        if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            if isinstance(parent, ast.NamedExpr) and not self.harmless(parent, seen):
                return False
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            return all(self.harmless_name(target, seen) for target in targets)
        if isinstance(parent, ast.Tuple) and isinstance(self.parents[parent], ast.Assign):
            # a, b = set(), 1
            place, targets = parent.elts.index(node), self.parents[parent].targets
            alike = all(isinstance(target, ast.Tuple) and len(target.elts) == len(parent.elts) for target in targets)
            return alike and all(self.harmless_name(target.elts[place], seen) for target in targets)
        return False

    def harmless_name(self, target, seen):
        """Whether all uses of the assigned value are harmless: by name, wherever it occurs."""
        key = {ast.Name: "id", ast.Attribute: "attr"}.get(type(target))
        if key is None:
            return False
        name = getattr(target, key)
        if name in seen:
            return True
        uses = (node for node in self.nodes if type(node) is type(target) and getattr(node, key) == name)
        return all(self.harmless(use, seen | {name}) for use in uses if isinstance(use.ctx, ast.Load))
