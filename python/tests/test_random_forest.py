"""tiermap-random-forest beside scikit-learn, on its own tables."""

import json
import subprocess

import numpy as np
import pytest

from conftest import ROOT

PROGRAM = ROOT / "build" / "release" / "bin" / "tiermap-random-forest"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="tiermap-random-forest is not built: make build")


def predicted(train, held_out, folder):
    """What a forest of 50 trees that was trained on the one table says of the other, in little memory."""
    for name, table in (("train", train), ("held-out", held_out)):
        np.save(folder / f"{name}.npy", table.astype(np.float32))
    small = ["--budget", "256KiB", "--page-size", "4KiB", "--forest", folder / "forest", "--json"]
    subprocess.run([PROGRAM, f"npy:{folder}/train.npy", "--trees", "50", "--hold-out", "0", *small],
                   capture_output=True, check=True, timeout=100)
    done = subprocess.run([PROGRAM, "predict", f"npy:{folder}/held-out.npy", "--predictions", folder / "said", *small],
                          capture_output=True, text=True, check=True, timeout=100)
    return json.loads(done.stdout), np.fromfile(folder / "said", np.uint32)


@pytest.mark.parametrize("name", ["breast_cancer", "digits", "iris", "wine"])
def test_it_is_right_as_often_as_scikit_learn(name, tmp_path):
    datasets = pytest.importorskip("sklearn.datasets")
    ensemble = pytest.importorskip("sklearn.ensemble")
    selection = pytest.importorskip("sklearn.model_selection")
    features, classes = getattr(datasets, f"load_{name}")(return_X_y=True)
    table = np.column_stack([features.astype(np.float32), classes])
    train, held_out = selection.train_test_split(table, test_size=0.3, stratify=classes, random_state=4)
    report, said = predicted(train, held_out, tmp_path)
    right = np.mean(said == held_out[:, -1])
    assert report["accuracy"] == pytest.approx(right)
    theirs = ensemble.RandomForestClassifier(50, max_depth=10, random_state=1).fit(train[:, :-1], train[:, -1])
    assert right >= theirs.score(held_out[:, :-1], held_out[:, -1]) - 0.05
