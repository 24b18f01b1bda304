# In place of pip: this environment belongs to ftest. A real pip, installed here, is found before this file.
import sys

HINT = """\
this Python environment is managed by ftest: it has no pip, and runs share it.
  It was made for: {requirements}
  In a suite, name what a case needs:  python: [{listed}, PACKAGE]
  By hand, `ftest env path {requirements} PACKAGE` makes another one and prints its directory.
  Or use an environment of your own: activate it, or set FTEST_PYTHON to its interpreter."""

if __name__ == "__main__":
    sys.exit("pip: " + HINT)
raise ModuleNotFoundError("No module named 'pip': " + HINT, name="pip")
