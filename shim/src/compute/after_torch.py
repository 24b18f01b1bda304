# Runs the code in the directories of FTEST_AFTER_TORCH; code that runs already stays as it is.


def start(functions):
    import os
    import sys

    for directory in os.environ.get("FTEST_AFTER_TORCH", "").split(":"):
        path = os.path.join(directory, "sitecustomize.py")
        if directory in sys.__dict__.get("_ftest_begun", ()) or not os.path.exists(path):
            continue
        with open(path) as file:
            exec(compile(file.read(), path, "exec"), {"__name__": "after_torch", "__file__": path})
