"""Arrays on stores behind tiers."""
import pickle

import numpy
import pytest

import tiermap


@pytest.fixture
def url(tmp_path):
    (tmp_path / "fast").mkdir()
    (tmp_path / "tiers.yaml").write_text(
        f"block: 64KiB\ntiers:\n  - capacity: 1MiB\n  - {{path: {tmp_path}/fast, capacity: 4MiB}}\n")
    return f"tiered://{tmp_path}/tiers.yaml?store={tmp_path}/numbers"


def test_what_is_written_is_in_the_file_behind(url, tmp_path):
    numbers = tiermap.map(url, dtype="int64", shape=1 << 20, mode="w+", budget="2MiB")
    numbers[:] = numpy.arange(1 << 20)
    assert int(numbers.sum()) == (1 << 20) * ((1 << 20) - 1) // 2
    del numbers
    assert (numpy.fromfile(tmp_path / "numbers", dtype="int64") == numpy.arange(1 << 20)).all()
    assert list((tmp_path / "fast").iterdir()) == []


def test_tiers_that_cannot_be_are_told_in_one_line(url, tmp_path):
    (tmp_path / "tiers.yaml").write_text("tiers: [{capacity: 1MiB, speed: 3}]\n")
    with pytest.raises(ValueError, match="unknown key 'speed'") as refused:
        tiermap.map(url, dtype="int64", shape=10, mode="w+", budget="2MiB")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "numbers").exists()


def test_names_of_stores_behind_tiers(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    numpy.arange(1 << 10).tofile("numbers")
    numbers = tiermap.map("tiered:tiers.yaml?store=numbers", dtype="int64", budget="2MiB")
    again = tiermap.map(url, dtype="int64", budget="2MiB")
    assert numbers.shape == again.shape == (1 << 10,)
    assert int(numbers[7]) == int(again[7]) == 7
    sent = pickle.loads(pickle.dumps(numbers))
    assert int(sent[8]) == 8
    with pytest.raises(FileNotFoundError):
        tiermap.map(f"tiered://{tmp_path}/tiers.yaml?store={tmp_path}/none", dtype="int64", budget="2MiB")
