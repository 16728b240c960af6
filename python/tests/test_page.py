"""What docs/python.md shows runs as it stands, in the order of the page."""

import re

import numpy as np

from conftest import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page(tmp_path, monkeypatch):
    for name in ("rows", "users", "items"):
        np.save(tmp_path / f"{name}.npy", np.arange(120000, dtype=np.float32).reshape(1200, 100))
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / "docs" / "python.md").read_text())
    assert len(blocks) >= 4
    names = {"numpy": np}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert names["counts"][2, 5] == 1 and names["counts"][3, 5] == 0
    assert names["array"][999_999] == 999_999**2
