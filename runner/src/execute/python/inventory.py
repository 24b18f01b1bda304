# What an interpreter has, as one line of JSON. Imports no package.
import json
import os
import platform
import re
import sys

# What `-c` puts there is not what a script would find.
if sys.path and sys.path[0] == "":
    del sys.path[0]
try:
    import importlib.metadata as metadata
except ImportError:
    metadata = None


def package(distribution):
    about = distribution.metadata
    name = re.sub(r"[-_.]+", "-", about["Name"]).lower()
    direct = distribution.read_text("direct_url.json")
    return name, {
        "version": about["Version"] or "",
        "requires": about.get_all("Requires-Dist") or [],
        "direct": json.loads(direct) if direct else None,
        "place": str(distribution.locate_file("")),
    }


packages = None
if metadata:
    packages = {}
    for distribution in metadata.distributions():
        try:
            name, what = package(distribution)
        except Exception:
            # Not a package that an installer would count.
            continue
        # The first on the path is the one that is imported.
        packages.setdefault(name, what)
    if "torch" not in packages:
        # As built in its source tree.
        from importlib.util import find_spec

        spec = find_spec("torch")
        if spec and spec.origin:
            version = ""
            try:
                with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as file:
                    found = re.search(r"^__version__ = ['\"](.+?)['\"]", file.read(), re.M)
                    version = found.group(1) if found else ""
            except OSError:
                pass
            packages["torch"] = {"version": version, "requires": [], "direct": None, "place": ""}
implementation = sys.implementation.version
markers = {
    "os_name": os.name,
    "sys_platform": sys.platform,
    "platform_machine": platform.machine(),
    "platform_python_implementation": platform.python_implementation(),
    "platform_release": platform.release(),
    "platform_system": platform.system(),
    "platform_version": platform.version(),
    "python_version": "%d.%d" % sys.version_info[:2],
    "python_full_version": platform.python_version(),
    "implementation_name": sys.implementation.name,
    "implementation_version": "%d.%d.%d" % implementation[:3],
}
print(json.dumps({"markers": markers, "packages": packages}))
