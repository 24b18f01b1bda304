"""The tests that docs/pytest.md shows pass."""

import re
import sys
from pathlib import Path

from test_bases import PATIENCE, fgpu

PAGE = Path(__file__).parents[2] / "docs/pytest.md"


def test_the_tests_of_the_page(session, pytester, monkeypatch, torch):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    # test_bases.py has more of what the others show.
    ours = [block for block in blocks if "torch.testing._internal" not in block]
    assert len(blocks) - len(ours) == 1
    session.write("\n\n".join(ours) + '\n\npytestmark = pytest.mark.cluster(timeout="8m")\n')
    monkeypatch.setenv("FTEST_PYTHON", sys.executable)
    result = pytester.run(fgpu(), sys.executable, "-m", "pytest", *session.plugins, timeout=PATIENCE)
    # The second is run for two values of its parameter.
    result.assert_outcomes(passed=3)
