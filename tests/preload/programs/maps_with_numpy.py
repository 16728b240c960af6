"""np.memmap in every mode, and what Python can do to a mapping. Argument: the file."""
import mmap
import multiprocessing
import os
import sys

import numpy as np

PATH = sys.argv[1]
SHAPE = (500, 1000)


def row_sum(row):
    return float(READ[row].sum())


written = np.memmap(PATH, dtype="<f8", mode="w+", shape=SHAPE)
written[:] = np.arange(500000).reshape(SHAPE)
written[::7] *= 2
written.flush()
print(written.sum(), written[3, 5])
del written
READ = np.memmap(PATH, dtype="<f8", mode="r", shape=SHAPE)
print(READ.sum(), np.fromfile(PATH)[1001])
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(sum(pool.map(row_sum, range(100))))
copied = np.memmap(PATH, dtype="<f8", mode="c", shape=SHAPE)
copied[0] = 5
print(READ[0, 10], copied[0, 10], copied.sum())
changed = np.memmap(PATH, dtype="<f8", mode="r+", shape=SHAPE)
changed[1, 1] = 77
print(READ[1, 1], np.fromfile(PATH)[1001])
with open(PATH, "r+b") as file, mmap.mmap(file.fileno(), 0) as whole:
    whole.resize(6000000)
    whole[5999999] = 9
    whole.flush()
    print(len(whole), whole[5999999], os.path.getsize(PATH), whole.find(b"\x00\x40\x53\x40"))
