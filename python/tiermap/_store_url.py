"""URLs of stores, taken apart as ``src/store/store_url.cpp`` does."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass, replace
from typing import List, Optional, Tuple
from urllib.parse import quote, unquote_to_bytes

SCHEMES = ("concat", "csv", "file", "fits", "hdf5", "memory", "npy", "parquet", "remote", "s3", "sparse", "tiered")
SCHEME = re.compile(rf"^({'|'.join(SCHEMES)}):", re.IGNORECASE)
ANY_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
CODES = re.compile(r"(?:%[0-9a-fA-F]{2})+")
BEHIND_NPY = re.compile(r"^npy:([a-z][a-z0-9+.-]*://.*)", re.IGNORECASE | re.DOTALL)
NESTED = re.compile(r"^[a-z][a-z0-9+.-]*://[^/]*", re.IGNORECASE)
NO_CODE = re.compile(r"%(?![0-9a-fA-F]{2})|%00")


@dataclass(frozen=True)
class StoreUrl:
    """What stands in a URL, as it stands there."""

    scheme: str  # In small letters.
    host: str
    pieces: Tuple[str, ...]  # More than one in concat only.
    query: str  # With its question mark.

    def __str__(self) -> str:
        return f"{self.scheme}:{'//' if self.host else ''}{self.host}{','.join(self.pieces)}{self.query}"

    @property
    def is_here(self) -> bool:
        """Whether it names files of this machine, and none of no name."""
        named = all(self.pieces) or self.scheme == "parquet" and self.behind is not None
        elsewhere = self.scheme in ("memory", "remote", "s3") or self.is_nested
        return not elsewhere and self.host in ("", "localhost") and named

    @property
    def is_nested(self) -> bool:
        """Whether the file of a format is in a store, as in ``hdf5:s3://bucket/x.h5:/group/dataset``."""
        return self.scheme in ("csv", "fits", "hdf5", "npy") and not self.host and NESTED.match(self.pieces[0]) is not None

    @property
    def options(self) -> List[Tuple[str, str]]:
        """As they stand there: name and value."""
        parts = (option.partition("=") for option in self.query[1:].split("&") if option)
        return [(name, value) for name, _, value in parts]

    @property
    def behind(self) -> Optional[str]:
        """The store that ``tiered:`` puts tiers before, and that the file of a format lies in."""
        if self.is_nested:
            machine = NESTED.match(self.pieces[0])
            assert machine is not None
            path = self.pieces[0][machine.end():]
            return machine.group() + (path if self.scheme in ("csv", "npy") else path.partition(":")[0]) + self.query
        for name, value in self.options if self.scheme in ("parquet", "tiered") else ():
            if name == "store":
                return decoded(value) or value
        return None

    def names(self) -> List[str]:
        """Equal for two spellings of the same pieces."""
        if self.is_nested:
            return [str(self)]
        if self.scheme in ("s3", "remote"):  # Others have buckets and data sets of the same names.
            server = sorted(f"{name}={value}" for name, value in self.options if name == "endpoint")
            return [self.host, *(decoded(piece) or piece for piece in self.pieces), *server]
        before: List[str] = []
        if self.scheme == "tiered":
            before = [self.behind or ""]
        elif self.scheme in ("csv", "fits", "parquet"):  # Of other columns the bytes are others.
            before = [f"{name}={decoded(value)}" for name, value in sorted(self.options)]
        return before + [piece if is_pattern(piece) else f"{decoded(path)}{span}"
                         for piece in self.pieces for path, span in [self.path_and_span(piece)]]

    def files(self) -> List[str]:
        """The paths of all that it names now."""
        if self.scheme == "remote":
            return []
        found: List[str] = []
        if self.behind:
            behind = parse(self.behind)
            found += [self.behind] if behind is None else behind.files()
        for piece in filter(None, () if self.scheme == "s3" or self.is_nested else self.pieces):
            path, _ = self.path_and_span(piece)
            if self.scheme not in ("csv", "hdf5") and is_pattern(path):
                found += sorted(glob.glob(pattern_of(path)), key=os.fsencode)
            else:
                found.append(decoded(path) or path)
        return found

    def path_and_span(self, piece: str) -> Tuple[str, str]:
        """Of a piece of concat also which of the file's bytes it means, of hdf5 which dataset, of fits which HDU."""
        if self.scheme == "hdf5":
            path, colon, dataset = piece.partition(":")
            return path, f"{colon}/{(decoded(dataset) or dataset).lstrip('/')}"
        if self.scheme == "fits":
            path, colon, part = piece.partition(":")
            return path, colon + (decoded(part) or part)
        if self.scheme != "concat":
            return piece, ""
        path, at, span = piece.rpartition("@")
        return (path, at + span) if at else (piece, "")


def parse(text: str) -> Optional[StoreUrl]:
    """None for a plain path."""
    if not SCHEME.match(text):
        return None
    scheme, _, rest = text.partition(":")
    rest, question, query = rest.partition("?")
    host = ""
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        rest = slash + rest
    scheme = scheme.lower()
    return StoreUrl(scheme, host, tuple(rest.split(",")) if scheme == "concat" else (rest,), question + query)


def unknown_scheme(text: str) -> Optional[str]:
    """What stands before the ``://`` of a text that is no URL of a store; None for a plain path."""
    found = ANY_SCHEME.match(text)
    return None if found is None or SCHEME.match(text) else found.group(1)


def is_pattern(encoded: str) -> bool:
    return "*" in encoded or "[" in encoded


def decoded(encoded: str) -> Optional[str]:
    """The path that is meant; None where opening it will say what is wrong."""
    return None if NO_CODE.search(encoded) else os.fsdecode(unquote_to_bytes(os.fsencode(encoded)))


def pattern_of(encoded: str) -> str:
    """For Python's glob, in which what was encoded means itself."""
    return CODES.sub(lambda codes: glob.escape(os.fsdecode(unquote_to_bytes(codes.group()))), encoded)


def is_npy(text: str) -> bool:
    """Whether it is a URL of a file with a .npy header, whatever its name."""
    url = parse(text)
    return url is not None and url.scheme == "npy"


def behind_npy(text: str) -> Optional[str]:
    """The URL that an ``npy:`` URL has behind its colon, as in ``npy:s3://bucket/x.npy``; None where it has a path."""
    found = BEHIND_NPY.match(text)
    return None if found is None else found.group(1)


def as_file(text: str) -> str:
    """The whole file of an ``npy:`` URL, its header too. Stars and brackets are no wild cards there."""
    url = parse(text)
    assert url is not None
    path = url.pieces[0].replace("*", "%2A").replace("[", "%5B")
    return str(replace(url, scheme="file", pieces=(path,)))


def made_absolute(text: str) -> str:
    """The same URL, and what is relative in it led on from the working directory of now."""
    url = parse(text)
    if url is None or not url.is_here:
        return text
    query = url.query
    if url.behind:
        behind = os.path.abspath(url.behind) if parse(url.behind) is None else made_absolute(url.behind)
        behind = quote(os.fsencode(behind), safe="/:,*[]@=")
        query = "?" + "&".join(f"{name}={behind if name == 'store' else value}" for name, value in url.options)
    if query == url.query and all(piece.startswith("/") for piece in url.pieces):
        return text
    here = quote(os.fsencode(os.getcwd())).rstrip("/")
    pieces = (piece if piece.startswith("/") or not piece else f"{here}/{piece}" for piece in url.pieces)
    return str(StoreUrl(url.scheme, url.host, tuple(pieces), query))
