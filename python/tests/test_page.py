"""What docs/python.md shows runs as it stands, in the order of the page."""

import re

import numpy as np

from conftest import HEAP_WRITER, ROOT, write_heap

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page(tmp_path, monkeypatch):
    for name in ("users", "items"):
        np.save(tmp_path / f"{name}.npy", np.arange(120000, dtype=np.float32).reshape(1200, 100))
    monkeypatch.chdir(tmp_path)
    if HEAP_WRITER is not None:
        assert write_heap("weather", "measured.heap") == 0
    blocks = BLOCK.findall((ROOT / "docs" / "python.md").read_text())
    assert len(blocks) >= 4
    names = {"numpy": np}
    for block in blocks:
        if "open_heap" in block and HEAP_WRITER is None:
            continue
        exec(compile(block, "docs/python.md", "exec"), names)
    assert names["counts"][2, 5] == 1 and names["counts"][3, 5] == 0
    assert names["array"][999_999] == 999_999**2
