"""tiermap-kmeans beside scikit-learn: on its own tables, and on points in clusters that touch each other."""

import json
import subprocess

import numpy as np
import pytest

from conftest import ROOT

PROGRAM = ROOT / "build" / "release" / "bin" / "tiermap-kmeans"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="tiermap-kmeans is not built: make build")


def touching_clusters():
    random = np.random.default_rng(3)
    centres = random.uniform(-10, 10, size=(6, 4))
    return centres[random.integers(0, 6, 20000)] + random.normal(size=(20000, 4))


def table(name):
    return getattr(pytest.importorskip("sklearn.datasets"), f"load_{name}")().data


def clustered(points, clusters, folder):
    """What the program says of them, and the assignments; the points in a tenth of their memory, or in 64 pages."""
    np.save(folder / "points.npy", points.astype(np.float32))
    budget = max(points.size * 4 // 10, 64 * 4096)
    done = subprocess.run(
        [PROGRAM, f"npy:{folder}/points.npy", "--clusters", str(clusters), "--tolerance", "0", "--json", "--budget",
         str(budget), "--page-size", "4KiB", "--assignments", folder / "assignments"],
        capture_output=True, text=True, check=True, timeout=100)
    return json.loads(done.stdout), np.fromfile(folder / "assignments", np.uint32)


# How much higher the inertia may be than the least that scikit-learn finds in ten tries: k-means ends in one of several
# places. What digits have of clusters is less clear than the others.
@pytest.mark.parametrize("points, clusters, tolerance",
                         [(touching_clusters, 6, 1e-6), ("iris", 3, 0.01), ("wine", 3, 0.01), ("digits", 10, 0.03)])
def test_it_finds_what_scikit_learn_finds(points, clusters, tolerance, tmp_path):
    cluster = pytest.importorskip("sklearn.cluster")
    metrics = pytest.importorskip("sklearn.metrics")
    points = table(points) if isinstance(points, str) else points()
    points = points.astype(np.float32).astype(np.float64)
    report, assignments = clustered(points, clusters, tmp_path)
    assert report["converged"] and report["dimensions"] == points.shape[1]
    best = cluster.KMeans(clusters, n_init=10, tol=0, random_state=1).fit(points)
    assert report["inertia"] <= best.inertia_ * (1 + tolerance)
    if tolerance < 0.02:
        assert metrics.adjusted_rand_score(best.labels_, assignments) > 0.95
    # From where the program ended there is nowhere to go.
    same = cluster.KMeans(clusters, init=np.array(report["centroids"]), n_init=1, tol=0).fit(points)
    assert np.isclose(same.inertia_, report["inertia"], rtol=1e-5)
    assert metrics.adjusted_rand_score(same.labels_, assignments) == 1
