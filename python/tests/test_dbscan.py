"""tiermap-dbscan beside scikit-learn: the same labels, number by number."""

import subprocess

import numpy as np
import pytest

from conftest import ROOT

PROGRAM = ROOT / "build" / "release" / "bin" / "tiermap-dbscan"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="tiermap-dbscan is not built: make build")


def labelled(points, reach, neighbours, folder):
    """What the program says of the points, in 64 pages of memory; -1 is noise, as scikit-learn has it."""
    np.save(folder / "points.npy", points.astype(np.float32))
    subprocess.run([PROGRAM, f"npy:{folder}/points.npy", "--reach", str(reach), "--neighbours", str(neighbours),
                    "--budget", "256KiB", "--page-size", "4KiB", "--labels", folder / "labels"],
                   capture_output=True, check=True, timeout=100)
    return np.fromfile(folder / "labels", np.int32)


def moons():
    return pytest.importorskip("sklearn.datasets").make_moons(3000, noise=0.08, random_state=2)[0]


def table(name):
    return getattr(pytest.importorskip("sklearn.datasets"), f"load_{name}")().data


@pytest.mark.parametrize("points, reach, neighbours",
                         [(moons, 0.1, 10), (moons, 0.05, 20), ("iris", 0.5, 5), ("wine", 40, 7), ("digits", 22, 6)])
def test_it_finds_what_scikit_learn_finds(points, reach, neighbours, tmp_path):
    cluster = pytest.importorskip("sklearn.cluster")
    points = table(points) if isinstance(points, str) else points()
    points = points.astype(np.float32)
    expected = cluster.DBSCAN(eps=reach, min_samples=neighbours).fit(points.astype(np.float64)).labels_
    assert 0 < expected.max() + 1
    assert np.array_equal(labelled(points, reach, neighbours, tmp_path), expected)
