"""Objects that are no stores, which is seen before anything is started for them."""

import pytest

import tiermap


@pytest.mark.parametrize("members, said", [
    (dict(size=10, read_into=lambda *_: None), "no write_from"),
    (dict(size=10, threads=1000, read_into=lambda *_: None, write_from=lambda *_: None), "1 to 64"),
])
def test_stores_that_cannot_be(members, said):
    with pytest.raises(ValueError, match=said):
        tiermap.map(type("Store", (), members)(), mode="r+")


def test_a_class_is_no_store():
    with pytest.raises(TypeError, match=r"Odd is a class, and no store: give an object of it, Odd\(\)$"):
        tiermap.map(type("Odd", (), {"size": 4096, "read_into": lambda *_: None}))


@pytest.mark.parametrize("members, said", [
    (dict(read_into=5), "read_into is 5: make it a method"),
    (dict(read_into=None), "read_into is None: make it a method"),
    (dict(read_into=lambda *_: None, write_from="x"), "write_from is 'x': make it a method"),
    (dict(read_into=lambda *_: None, threads="x"), "threads is 'x': choose 1 to 64"),
    (dict(read_into=lambda *_: None, threads=1.5), "threads is 1.5: choose 1 to 64"),
])
def test_members_that_cannot_be(members, said):
    with pytest.raises(TypeError, match=f"^Odd.{said}$"):
        tiermap.map(type("Odd", (), {"size": 10, **members})())
