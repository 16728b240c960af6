"""Scenarios of programs that were not made for Tiermap: packaged ones through `tiermap run`, and scripts of numpy's."""
import dataclasses
import pathlib
import subprocess
import sys

from cases import Case, Scenario, have, overhead
from measurement import MIB, option_bytes

ROOT = pathlib.Path(__file__).resolve().parent.parent
# With numpy and the wheel: made by scripts/test_python.sh.
NUMPY_PYTHON = ROOT / "build/python/environment/bin/python"
GENERATE = ROOT / "tests/preload/programs/generates_text.py"
GATHER_JAVA = ROOT / "tests/preload/programs/GathersWithJava.java"
ADVICE = (("numpy.memmap as it comes", "None"), ("numpy.memmap, MADV_RANDOM", "MADV_RANDOM"),
          ("numpy.memmap, MADV_SEQUENTIAL", "MADV_SEQUENTIAL"))

LOOKUPS = ("PRAGMA mmap_size=100000000000; WITH RECURSIVE n(i, k) AS (SELECT 1, 7 UNION ALL SELECT i + 1, "
           "(k * 1103515245 + 12345) & 0x7fffffff FROM n WHERE i < 1000) "
           "SELECT sum(length(t.b)) FROM n CROSS JOIN t ON t.a = 1 + n.k % {rows};")
SCAN = "PRAGMA mmap_size=100000000000; SELECT sum(length(b)) FROM t"
GATHER = """
import numpy as np, sys
rows = np.memmap(sys.argv[1], dtype='u8', mode='r').reshape(-1, 512)
chosen = np.random.default_rng(5).integers(0, len(rows), 3000)
print(sum(int(rows[row].sum()) for row in chosen))
"""


@dataclasses.dataclass(frozen=True)
class Program:
    """A packaged program over data, and the memory that it needs for itself."""
    name: str
    needs: str
    data: str
    command: tuple
    writes: str = ""
    exit_code: int = 0
    own_bytes: int = 32 * MIB
    module: str = ""


def can_import(module):
    return subprocess.run([NUMPY_PYTHON, "-c", f"import {module}"], check=False, capture_output=True).returncode == 0


def programs(size, limit):
    """DATA and OUTPUT stand for paths."""
    return (
        Program("lrzip", "lrzip", "repeating",
                ("lrzip", "-q", "-n", "-f", "-p", "1", "-m", max(1, limit // (100 * MIB)), "-w", "10", "-o", "OUTPUT",
                 "DATA"), writes="OUTPUT", own_bytes=200 * MIB),
        Program("sqlite3 look-ups", "sqlite3", "database", ("sqlite3", "DATA", LOOKUPS.format(rows=size // 1000))),
        Program("sqlite3 scan", "sqlite3", "database", ("sqlite3", "DATA", SCAN)),
        Program("mdb_dump", "mdb_dump", "pairs", ("mdb_dump", "-f", "OUTPUT", "DATA"), writes="OUTPUT"),
        # It finds nothing, and says so by its exit code.
        Program("ripgrep", "rg", "random", ("rg", "--mmap", "-a", "-c", "tier[0-9]map|zzzz", "DATA"),
                exit_code=1),
        Program("look", "look", "lines", ("look", "-t", "x", "00", "DATA")),
        Program("Java gather", "java", "random", ("java", "-Xmx64m", "-XX:+UseSerialGC", GATHER_JAVA, "DATA", 3000),
                own_bytes=256 * MIB),
        Program("np.memmap gather", "python3", "random", ("/usr/bin/python3", "-c", GATHER, "DATA")),
    )


def data_of(bench, program, size):
    """Where the program's data is, and how large it became."""
    data = bench.scratch / f"shared-{program.data}-{size // MIB}"
    return data, bench.make(data, sys.executable, ROOT / "bench/program_data.py", program.data, data, size)


def program_cases(bench, program, panel, data, size, limit, buffer):
    """The program as it is, and through `tiermap run`, in the same limit."""
    output = bench.scratch / "output"
    places = {"DATA": data, "OUTPUT": output}
    plain = [places.get(word, word) for word in program.command]
    timed = [sys.executable, ROOT / "bench/timed_program.py", "--exit-code", program.exit_code,
             "--expect", bench.scratch / f"shared-digest-{program.name.replace(' ', '-')}-{size // MIB}"]
    timed += ["--output", output] if program.writes else []
    served = [bench.program("tiermap"), "run", "--buffer", option_bytes(buffer), "--"]
    about = {"panel": f"{program.name}, {panel}", "limit": limit, "data_bytes": size, "drop": (data,),
             "for_peers": False}
    return [Case("as it is", "mmap", [*timed, *plain], **about),
            Case("tiermap run", "tiermap", [*timed, *served, *plain], **about)]


def cases_of(bench, programs_of_it, size):
    """Data four times the memory for it; data that fits, where files are left to the kernel; and data that fits with so
    little to spare that Tiermap serves them."""
    cases = []
    for program in programs_of_it:
        if not have(program.needs):
            bench.skip(program.name, f"{program.needs} is not installed")
            continue
        if program.module and not bench.dry and not can_import(program.module):
            bench.skip(program.name, f"{program.module} is not there: `make test-python` fetches it")
            continue
        data, data_bytes = data_of(bench, program, size)
        beside = program.own_bytes + overhead(data_bytes)
        # Of what was made: a database is larger than its rows.
        for panel, buffer in (("memory for a quarter", data_bytes // 4), ("all fits in 5/4", data_bytes // 4 * 5),
                              ("all fits in 16/15", data_bytes // 15 * 16)):
            cases += program_cases(bench, program, panel, data, data_bytes, buffer + beside, buffer)
    return cases


def unmodified(bench):
    size = bench.choose(128 * MIB, 512 * MIB, 1024 * MIB)
    return cases_of(bench, programs(size, size // 4), size)


def language_model(bench):
    """Each word goes over all weights."""
    if not has_numpy(bench):
        return []
    model = Program("a language model", str(NUMPY_PYTHON), "weights", (NUMPY_PYTHON, GENERATE, "DATA", "4"),
                    own_bytes=160 * MIB, module="ctransformers")
    return cases_of(bench, (model,), bench.choose(128 * MIB, 512 * MIB, 1024 * MIB))


def has_numpy(bench):
    """Whether the Python package is there to be measured."""
    if not bench.dry and not NUMPY_PYTHON.exists():
        bench.skip("Python", "build/python/environment is not there: `make test-python` makes it")
        return False
    return True


def gather(bench):
    """Batches of random rows, by numpy.memmap with each advice, and by tiermap.memmap."""
    if not has_numpy(bench):
        return []
    size = bench.choose(256 * MIB, 1024 * MIB, 2048 * MIB)
    seconds = bench.choose(2, 8, 20)
    data = bench.scratch / f"shared-rows-{size // MIB}"
    script = ROOT / "python/examples/row_gather.py"
    bench.make(data, NUMPY_PYTHON, script, "--data", data, "--mebibytes", size // MIB, "--make")
    cases = []
    for system, ways in (("tiermap", (("tiermap.memmap", "None"),)), ("mmap", ADVICE)):
        for series, advice in ways:
            command = [NUMPY_PYTHON, script, "--data", data, "--mebibytes", size // MIB, "--seconds", seconds,
                       "--worker", "tiermap" if system == "tiermap" else "numpy", advice]
            cases.append(Case(series, system, command, metric="rows_per_second", limit=size // 4 + 96 * MIB,
                              data_bytes=size, drop=(data,), for_peers=False, environment={
                                  "TIERMAP_BUFFER_SIZE": option_bytes(size // 4), "OPENBLAS_NUM_THREADS": "1"}))
    return cases


def warm_sum(bench):
    """Both arrays in one process, in turns; each side has runs of its own."""
    if not has_numpy(bench):
        return []
    size = bench.choose(128 * MIB, 512 * MIB, 512 * MIB)
    command = [NUMPY_PYTHON, ROOT / "python/examples/warm_reduction.py", "--data", bench.scratch / "numbers.npy",
               "--mebibytes", size // MIB, "--json"]
    if not bench.dry:
        (bench.scratch / "numbers.npy").unlink(missing_ok=True)  # Of a run that was killed: it is not replaced.
    return [Case(series, system, command, data_bytes=size, for_peers=False,
                 value=lambda report, key=key: report[key])
            for series, system, key in (("mapped array", "tiermap", "mapped_seconds"),
                                        ("plain array", "memory", "plain_seconds"))]


SCENARIOS = (
    Scenario("unmodified", "Programs that cannot be changed",
             "Packaged programs as they are, and through `tiermap run`, from a cold page cache, in the same memory "
             "limit: the buffer, which is all that is set, and what the program needs beside it. What came of both is "
             "compared.",
             ("tiermap",), unmodified, weight=1.5),
    Scenario("language-model", "A language model that cannot be changed",
             "A program on llama.cpp's library as ctransformers packages it, which maps a model of random weights and "
             "generates four words, each from all of them; otherwise as the programs above.",
             ("tiermap",), language_model, weight=0.5),
    Scenario("python-gather", "Python: random rows",
             "`python/examples/row_gather.py`: batches of 256 random rows of 4 KiB, picked from an array four times "
             "larger than the memory for it; one import line differs.", (), gather),
    Scenario("python-warm", "Python: an array that fits, once it is in memory",
             "`python/examples/warm_reduction.py`: the sum of a mapped array and of a plain one.", (), warm_sum, weight=0.5),
)
