#!/usr/bin/env bash
# Validates JUnit files with the schema of Jenkins' xunit plugin: .ci/junit-schema.sh FILE...
# The schema (junit-10.xsd, MIT) is the copy in pytest's source distribution; lxml does the work. Both come from PyPI.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check lxml==6.0.2
"$scratch/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$scratch" pytest==9.0.1
tar -xzf "$scratch/pytest-9.0.1.tar.gz" -C "$scratch" pytest-9.0.1/testing/example_scripts/junit-10.xsd
"$scratch/venv/bin/python" - "$scratch/pytest-9.0.1/testing/example_scripts/junit-10.xsd" "$@" <<'PY'
import sys

from lxml import etree

schema = etree.XMLSchema(etree.parse(sys.argv[1]))
wrong = False
for path in sys.argv[2:]:
    document = etree.parse(path)
    cases = sum(1 for _ in document.iter("testcase"))
    if not cases:
        print(f"{path}: holds no case", file=sys.stderr)
        wrong = True
    if not schema.validate(document):
        for error in schema.error_log:
            print(f"{path}:{error.line}: {error.message}", file=sys.stderr)
        wrong = True
    print(f"{path}: {cases} cases")
sys.exit(wrong)
PY
