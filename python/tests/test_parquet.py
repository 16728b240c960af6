"""Columns of Parquet files as arrays, beside what pyarrow says they are."""

import errno
import gc
import os

import numpy as np
import pytest

import tiermap
from conftest import known, open_first_beside_forks

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ROWS = 50_000


@pytest.fixture
def table(tmp_path):
    """A file of several columns, and what they hold."""
    held = pa.table({"x": known(ROWS, np.float32), "y": known(ROWS, np.float32, 7), "id": known(ROWS, np.int64),
                     "near": known(ROWS) % 2 == 0, "name": [str(row) for row in range(ROWS)]})
    held = held.replace_schema_metadata({"made": "here"})
    path = tmp_path / "table.parquet"
    pq.write_table(held, path, row_group_size=7000, compression="zstd", write_page_index=True)
    try:
        tiermap.map(f"parquet:{path}?columns=x")
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            pytest.skip(str(error))
        raise
    return path, held


def test_columns_are_arrays(table):
    path, held = table
    x = tiermap.map(f"parquet:{path}?columns=x", budget="1MiB", page_size="16KiB")
    assert x.dtype == np.float32 and x.shape == (ROWS,)
    assert np.array_equal(x, held["x"])
    rows = tiermap.map(f"parquet:{path}?columns=y,x", budget="1MiB", page_size="16KiB")
    assert rows.shape == (ROWS, 2)
    assert np.array_equal(rows[:, 0], held["y"]) and np.array_equal(rows[:, 1], held["x"])


@pytest.mark.parametrize("align", ["off", "on"])
def test_columns_of_several_types_are_records(table, align):
    path, held = table
    records = tiermap.map(f"parquet:{path}?columns=near,id,x&align={align}", budget="1MiB", page_size="16KiB")
    assert records.dtype == np.dtype([("near", "?"), ("id", "<i8"), ("x", "<f4")], align=align == "on")
    for name in ("near", "id", "x"):
        assert np.array_equal(records[name], held[name]), name


def test_what_is_written_is_there_for_pyarrow(table):
    path, held = table
    os.link(path, path.parent / "before")
    array = tiermap.map(f"parquet:{path}?columns=x,y", mode="r+", budget="1MiB")
    array[20_000:20_010, 1] = np.arange(10)
    array[-1] = 5
    array.sync()
    changed = held["y"].to_numpy().copy()
    changed[20_000:20_010] = np.arange(10)
    changed[-1] = 5
    assert np.array_equal(pq.read_table(path)["y"], changed)
    array[0] = -1
    del array
    gc.collect()
    changed[0] = -1
    now = pq.read_table(path)
    assert np.array_equal(now["y"], changed)
    for name in ("id", "near", "name"):
        assert now[name].equals(held[name])
    assert now.schema.equals(held.schema, check_metadata=True)
    assert pq.read_table(path.parent / "before").equals(held)
    metadata = pq.read_metadata(path)
    assert metadata.row_group(2).column(1).compression == "ZSTD"
    assert metadata.row_group(2).column(1).statistics.min == 0  # Those of the new values.
    assert pq.read_table(path, filters=[("y", "==", 5.0), ("id", ">=", 0)])["y"].to_pylist().count(5.0) >= 2


def test_a_file_that_is_made(tmp_path, table):
    url = f"parquet:{tmp_path}/new.parquet?columns=a:float64,b:float64&group=64KiB&compression=gzip"
    values = known(2 * ROWS, np.float64).reshape(ROWS, 2)
    array = tiermap.map(url, "f8", (ROWS, 2), mode="w", budget="256KiB", page_size="16KiB")
    array[:] = values
    del array
    gc.collect()
    file = pq.ParquetFile(tmp_path / "new.parquet")
    assert file.metadata.num_rows == ROWS and file.metadata.num_row_groups == 13
    assert file.metadata.row_group(3).column(1).compression == "GZIP"
    assert np.array_equal(np.column_stack([file.read()["a"], file.read()["b"]]), values)
    with pytest.raises(FileExistsError):
        tiermap.map(url, "f8", (ROWS, 2), mode="w")


def test_many_files_relative_names_and_stores_behind(table, monkeypatch):
    path, held = table
    pq.write_table(held.slice(0, 100), path.parent / "table2.parquet")
    monkeypatch.chdir(path.parent)
    both = tiermap.map("parquet:table*.parquet?columns=id")
    behind = tiermap.map("parquet:?columns=id&store=table.parquet")
    monkeypatch.chdir("/")
    ids = held["id"].to_numpy()
    assert np.array_equal(both, np.concatenate([ids, ids[:100]]))
    assert np.array_equal(behind, ids)


def test_nulls_are_refused_or_filled(tmp_path, table):
    pq.write_table(pa.table({"a": pa.array([1.5, None, 2.5])}), tmp_path / "nulls.parquet")
    with pytest.raises(OSError, match="column a has 1 nulls in row group 0"):
        tiermap.map(f"parquet:{tmp_path}/nulls.parquet")
    array = tiermap.map(f"parquet:{tmp_path}/nulls.parquet?nulls=nan")
    assert array[0] == 1.5 and np.isnan(array[1]) and array[2] == 2.5


def test_what_is_not_there_is_named(table):
    path, _ = table
    with pytest.raises(FileNotFoundError, match="column mass is not there: choose among x, y, id, near, name"):
        tiermap.map(f"parquet:{path}?columns=mass")
    with pytest.raises(OSError, match="column name holds strings"):
        tiermap.map(f"parquet:{path}")
    with pytest.raises(ValueError, match="holds float32, not float64"):
        tiermap.map(f"parquet:{path}?columns=x", "f8")


def test_a_library_that_is_not_there(table, program, tmp_path):
    path, _ = table
    text = """
        import sys, tiermap
        try:
            tiermap.map(f"parquet:{sys.argv[1]}?columns=x")
        except OSError as error:
            print(error)
        """
    ended = program(text, path, TIERMAP_PARQUET_LIBRARY=str(tmp_path / "none.so"))
    assert "needs libtiermap_parquet.so" in ended.output and "none.so" in ended.output, ended
    assert len(ended.output.splitlines()) == 1


def test_a_child_opens_one_that_is_forked_beside_the_first_opening(table):
    assert open_first_beside_forks(f"parquet:{table[0]}?columns=x") == [0] * 8
