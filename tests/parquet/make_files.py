#!/usr/bin/env python3
"""Makes the Parquet files that the tests read: make_files.py DIRECTORY. By pyarrow alone; what is in them follows from
the number of the row, so that the tests know it."""
import decimal
import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 100_001


def points(rows=ROWS, first=0):
    """Coordinates and what else a row may have."""
    row = np.arange(first, first + rows)
    return {
        "x": row.astype("f4"),
        "y": (row * 0.5).astype("f4"),
        "z": (-row).astype("f4"),
        "id": row * 3,
        "flag": row % 3 == 0,
    }


def every_type(rows=5000):
    row = np.arange(rows)
    columns = {name: row.astype(name) for name in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")}
    columns = {name: pa.array(values) for name, values in columns.items()}
    columns["high"] = pa.array(row.astype("u8") + (1 << 63))
    columns["low"] = pa.array(-row.astype("i1"))
    columns["truth"] = pa.array(row % 2 == 1)
    columns["date"] = pa.array(row.astype("i4"), pa.date32())
    columns["stamp"] = pa.array(row.astype("i8"), pa.timestamp("us"))
    columns["time"] = pa.array(row.astype("i4"), pa.time32("ms"))
    columns["fixed"] = pa.array([b"%05d" % number for number in row], pa.binary(5))
    columns["money"] = pa.array([decimal.Decimal(int(number)) for number in row], pa.decimal128(9, 0))
    columns["inside"] = pa.StructArray.from_arrays([columns["i4"], columns["f8"]], ["a", "b"])
    columns["name"] = pa.array([str(number) for number in row])
    columns["list"] = pa.array([[1.0, 2.0]] * rows)
    return pa.table(columns)


def nulls(known=True, rows=4000):
    """Every seventh value of `some` is null, but not in the first row group; none of `none` is."""
    row = np.arange(rows)
    hidden = (row % 7 == 0) & (row >= 1000)
    return pa.table({"some": pa.array(row.astype("f8"), mask=hidden), "whole": pa.array(row, mask=hidden),
                     "none": pa.array(row.astype("f4"))})


def main(directory):
    directory.mkdir(parents=True, exist_ok=True)
    metadata = {"made by": "make_files.py", "empty": ""}
    table = pa.table({**points(), "name": [f"row {row}" for row in range(ROWS)]}).replace_schema_metadata(metadata)
    pq.write_table(table, directory / "points.parquet", row_group_size=10_000)
    numbers = pa.table(points())
    pq.write_table(numbers, directory / "indexed.parquet", row_group_size=10_000, compression="zstd",
                   use_dictionary=["flag", "x"], column_encoding={"y": "BYTE_STREAM_SPLIT", "id": "DELTA_BINARY_PACKED"},
                   write_page_index=True, data_page_size=4096, data_page_version="2.0",
                   sorting_columns=[pq.SortingColumn(0)])
    pq.write_table(numbers, directory / "plain.parquet", row_group_size=30_000, compression="none",
                   use_dictionary=False, write_page_checksum=True)
    pq.write_table(numbers, directory / "gzip.parquet", row_group_size=30_000, compression="gzip",
                   write_statistics=False)
    required = pa.schema([pa.field(name, array.type, nullable=False) for name, array in zip(numbers.column_names,
                                                                                            numbers.columns)])
    pq.write_table(numbers.cast(required), directory / "required.parquet", row_group_size=7_000)
    pq.write_table(every_type(), directory / "types.parquet", row_group_size=2048)
    pq.write_table(nulls(), directory / "nulls.parquet", row_group_size=1000)
    pq.write_table(nulls(), directory / "unknown-nulls.parquet", row_group_size=1000, write_statistics=False)
    for part, first in enumerate((0, 40_000, 40_000, 70_000)):
        end = (40_000, 40_000, 70_000, ROWS)[part]
        pq.write_table(pa.table(points(end - first, first)), directory / f"part-{part}.parquet", row_group_size=9_000)
    pq.write_table(numbers.slice(0, 10).set_column(0, "x", pa.array(range(10))), directory / "other-type.parquet")
    pq.write_table(numbers.slice(0, 0), directory / "empty.parquet")
    for name, scale in (("cents", 2), ("mills", 3)):
        prices = pa.array([decimal.Decimal(1)], pa.decimal128(9, scale))
        pq.write_table(pa.table({"price": prices}), directory / f"price-in-{name}.parquet", store_decimal_as_integer=True)
    for name, zone in (("local", None), ("utc", "UTC"), ("zone", "Europe/Berlin")):
        moments = pa.array([0, 1], pa.timestamp("us", tz=zone))
        pq.write_table(pa.table({"when": moments}), directory / f"moments-{name}.parquet")
    pq.write_table(pa.table({"when": moments}), directory / "int96.parquet", use_deprecated_int96_timestamps=True)
    row = np.arange(10)
    pq.write_table(pa.Table.from_arrays([pa.array(row), pa.array(row * 2.0), pa.array(row + 7)], ["x", "y", "x"]),
                   directory / "namesakes.parquet")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
