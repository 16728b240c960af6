"""Peers: builds of other libraries found on this machine, added as systems by `--peer NAME=COMMAND`.

COMMAND is what starts the peer's own program. `{program}` in it becomes the application's name (sort, bfs, search,
...). It gets the same arguments as ours, `--system NAME` among them, in the same memory limit, and has to print the
same JSON. What it cannot do it refuses with an exit code; that case is then named as failed. No code of a peer is part
of this project.
"""
import dataclasses
import os
import re
import shlex
import shutil

NAME = re.compile(r"[a-z][a-z0-9-]*")
# Of systems here: a peer's runs under one of these names would count as theirs.
TAKEN = ("allocator", "asked", "boost", "direct", "fio", "lmdb", "memory", "mmap", "mpi", "rocksdb", "spark", "tiermap",
         "ucx")


class BadPeer(Exception):
    """The text says what is wrong with the option."""


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    command: tuple

    @staticmethod
    def parse(text):
        name, found, command = text.partition("=")
        try:
            words = tuple(shlex.split(command)) if found else ()
        except ValueError as problem:
            raise BadPeer(f"peer {text} does not do: {str(problem).lower()}: quote as in a shell") from problem
        if not words or not NAME.fullmatch(name):
            raise BadPeer(f"peer {text} does not do: give NAME=COMMAND, such as umap=/opt/umap/bin/{{program}}, with a "
                          "name of small letters, digits and -")
        if name in TAKEN:
            raise BadPeer(f"peer {name} has a name of this harness: choose another one")
        return Peer(name, words)

    def case(self, case):
        """The same case by the peer, or None and the reason: a program that is not there is no failure."""
        program = str(case.command[0]).rsplit("/", 1)[-1].removeprefix("tiermap-")
        start = [_from_here(place, word.replace("{program}", program)) for place, word in enumerate(self.command)]
        if shutil.which(start[0]) is None:
            return None, f"{start[0]} is not there"
        arguments = list(case.command[1:])
        if "--system" in arguments:
            arguments[arguments.index("--system") + 1] = self.name
        return dataclasses.replace(case, system=self.name, command=start + arguments,
                                   series=case.series.replace("tiermap", self.name, 1)), None


def _from_here(place, word):
    """A file by its name from the root: programs run in the scratch folder, where a name from here leads elsewhere. What
    starts the command is looked for in PATH unless it names a folder."""
    return os.path.abspath(word) if (place > 0 or "/" in word) and os.path.exists(word) else word


def with_peers(cases, peers, skip):
    """The cases, and beside each of Tiermap's that of every peer."""
    every = []
    for case in cases:
        every.append(case)
        for peer in peers if case.system == "tiermap" and case.for_peers else ():
            theirs, reason = peer.case(case)
            if theirs:
                every.append(theirs)
            else:
                skip(peer.name, reason)
    return every
