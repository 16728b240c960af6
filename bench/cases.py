"""What a scenario is made of: cases to be run in turn, and the commands that make their data."""
import dataclasses
import os
import pathlib
import shutil
import time

from measurement import GIB, MIB, option_bytes, remove, run_json

ADVICE = ("random", "normal", "sequential")
# Each way is tried wherever mmap is compared, and the best counts.
MMAP_WAYS = tuple((f"mmap {advice}", ("--madvise", advice)) for advice in ADVICE)
# For programs that say in advance what they will touch: with those hints (MADV_WILLNEED, sync_file_range()) and
# without.
MMAP_HINTED = tuple((f"mmap {advice}, hints", ("--madvise", advice, "--prefetch", "on")) for advice in reversed(ADVICE))
MMAP_WAYS_WITH_HINTS = (*MMAP_HINTED, *((series, (*ways, "--prefetch", "off")) for series, ways in MMAP_WAYS))
# What comes first is run first: for programs to which read-ahead is of no use.
MMAP_RANDOM_FIRST = tuple(sorted(MMAP_WAYS_WITH_HINTS, key=lambda way: "random" not in way[0]))
THREADS = (2, 4, 8, 16, 32, 64)


def overhead(data_bytes):
    """What a program needs beside the pages of its data: code, stacks and buffers, and page tables and page words for
    the data. Tiermap's budget is the limit less this, so that it and mmap's page cache live in the same limit."""
    return 14 * MIB + data_bytes // 128


def memory_for(data_bytes, percent):
    """Memory for so much of the data. Where it is to be all, there is as much more as Tiermap's evictors keep free."""
    return int(data_bytes * (percent / 100 if percent < 100 else 1.25)) + overhead(data_bytes)


@dataclasses.dataclass
class Case:
    """One setting of one system at one place of a plot."""
    series: str
    system: str
    command: list
    x: object = None
    panel: str = ""
    metric: str = "seconds"
    limit: int | None = None
    data_bytes: int | None = None
    # What is dropped from the page cache before each run.
    drop: tuple = ()
    environment: dict = dataclasses.field(default_factory=dict)
    # The option that this case varies is not one that a peer need have.
    for_peers: bool = True
    # How to find the value where the report does not have it under the metric's name.
    value: object = None


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A name, what is measured, and the function that makes its data and returns its cases."""
    name: str
    title: str
    text: str
    programs: tuple
    cases: object
    x_label: str = ""
    # Which share of the time of a quick run it may use, against 1 for most.
    weight: float = 1
    # Options without which it cannot run: (program, option).
    needs: tuple = ()


class DataProblem(Exception):
    """The data of a scenario could not be made; the text says why."""


class OutOfTime(Exception):
    """There was no time left to make the data of a scenario."""


class Bench:
    """Sizes, folders, and the making of data. With `dry` nothing is run: cases are only listed."""

    def __init__(self, binaries, scratch, detail, limit_problem=None, dry=False):
        self.binaries = pathlib.Path(binaries)
        self.scratch = pathlib.Path(scratch)
        self.detail = detail
        self.limit_problem = limit_problem
        self.dry = dry
        self.cores = os.cpu_count() or 2
        self.repetitions = 3
        self.data_bytes = GIB // 2 if detail == "aims" else self.choose(GIB // 4, GIB, 2 * GIB)
        self.limit = self.data_bytes // 4
        self.run_timeout = self.choose(15, 300, 1800)
        self.skipped = []
        self.setup = []
        self.deadline = None
        # Opens what has to be closed after the scenario, such as a disk of its own.
        self.enter = None

    @property
    def mmap_with_hints(self):
        """mmap's ways for programs that say in advance what they will touch. All of them, however brief: with some
        programs the best one has hints, with others none."""
        return MMAP_WAYS_WITH_HINTS

    @property
    def brief(self):
        """Whether only what tells most is to be measured."""
        return self.detail in ("quick", "aims")

    def choose(self, quick, short, full):
        """What to do at this level of detail."""
        return {"quick": quick, "aims": short, "short": short, "full": full}[self.detail]

    def points(self, brief, short, full):
        """The places of a sweep at this level of detail."""
        return brief if self.brief else self.choose(brief, short, full)

    @property
    def threads(self):
        """The numbers of threads that are swept."""
        return self.points((2, 64), (2, 8, 64), THREADS)

    def skip(self, what, reason):
        if (what, reason) not in self.skipped:
            self.skipped.append((what, reason))

    def program(self, name):
        return self.binaries / name

    def make(self, path, program, *options):
        """Makes a file or folder by a program, without a limit, unless it is there; returns how large it is."""
        path = pathlib.Path(path)
        command = [self.program(program), *options]
        if command not in self.setup:
            self.setup.append(command)
        if self.dry:
            return self.data_bytes
        if not path.exists():
            timeout = max(self.deadline - time.monotonic(), 1) if self.deadline else 3600
            made = run_json(command, label=f"making data by {program}", timeout=timeout, cwd=self.scratch,
                            environment={"TMPDIR": str(self.scratch)}, quiet=True)
            if not path.exists() or made.get("failed", "").startswith(("stopped", "exit code")):
                if path.exists():
                    remove(path)
                if self.deadline and made.get("failed", "").startswith("stopped"):
                    raise OutOfTime
                raise DataProblem(made.get("failed", f"{program} made no {path.name}"))
        found = [path] if path.is_file() else path.rglob("*")
        return sum(file.stat().st_size for file in found if file.is_file())

    def compare(self, program, *options, limit=None, beside=0, tiermap=(("tiermap", ()),), mmap=MMAP_WAYS, memory=False,
                direct=None, unlimited=False, **more):
        """The cases of one point: Tiermap in each way, and mmap, both in `limit` bytes, `beside` of which are for
        what the program itself keeps, whoever pages. Memory and direct I/O, where asked for, are not limited by what
        they page: they are bounds."""
        limit = limit or self.limit
        budget = option_bytes(max(limit - overhead(more.get("data_bytes", self.data_bytes)), 8 * MIB))

        def case(series, system, ways, group):
            command = [self.program(program), "--system", group, "--budget", budget, "--json", *options, *ways]
            return Case(series, system, command, limit=limit + beside, **{"data_bytes": self.data_bytes, **more})
        cases = [case(series, "tiermap", ways, "tiermap") for series, ways in tiermap]
        cases += [case(series, "mmap", ways, "mmap") for series, ways in mmap]
        if unlimited:
            roomy = case("mmap random, no limit", "mmap unlimited", ("--madvise", "random"), "mmap")
            cases.append(dataclasses.replace(roomy, limit=None))
        if memory:
            cases.append(dataclasses.replace(case("memory", "memory", (), "memory"), limit=None))
        if direct:
            for series, ways in direct:
                cases.append(case(series, "direct", ways, "mmap"))
        return cases


def pages(sizes, series="tiermap", options=()):
    """Tiermap's ways for a sweep over page sizes, as (x, way)."""
    return [(size, (series, ("--page-size", option_bytes(size), *options))) for size in sizes]


def have(tool):
    return shutil.which(tool) is not None
