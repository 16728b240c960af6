"""Scenarios of programs that touch a few words here and there: random-io, search, kmer."""
import dataclasses

from cases import MMAP_RANDOM_FIRST, Scenario
from measurement import MIB, option_bytes

RANDOM_IO, SEARCH, KMER = "tiermap-random-io", "tiermap-search", "tiermap-kmer"
SELF_SERVING = (("tiermap self-serving", ("--fault-mode", "self-serving")),)
BOTH_MODES = (*SELF_SERVING, ("tiermap notify", ("--fault-mode", "notify")))


def _modes(bench):
    return SELF_SERVING if bench.brief else BOTH_MODES


def _random_io(bench, access, threads, **more):
    return bench.compare(RANDOM_IO, "--access", access, "--bytes", option_bytes(bench.data_bytes), "--threads", threads,
                         "--accesses", bench.choose(20000, 200000, 1000000), "--page-size", "4KiB",
                         metric="accesses_per_second" if access == "read" else "synced_accesses_per_second",
                         **{"x": threads, **more})


def random_io(bench, access):
    cases = []
    counts = bench.points((2, 64, 128), (2, 16, 64, 128), (1, 2, 4, 8, 16, 32, 64, 128, 256))
    for threads in counts:
        cases += _random_io(bench, access, threads, tiermap=_modes(bench), unlimited=bench.detail == "full",
                            direct=(("direct I/O", ("--direct",)),))
    return cases


def random_io_optimisations(bench):
    variants = (("tiermap self-serving, default settings", "self-serving", {}),
                ("tiermap self-serving, pages moved, not copied", "self-serving", {"TIERMAP_PLACEMENT": "move"}),
                ("tiermap notify", "notify", {}), ("tiermap notify, no polling", "notify", {"TIERMAP_SPIN": "0"}))
    cases = []
    for threads in bench.choose((8,), (8, 64), (2, 8, 32, 64, 128, 256)):
        for series, mode, environment in variants:
            cases += [dataclasses.replace(case, environment=environment, for_peers=False) for case in _random_io(
                bench, "read", threads, tiermap=((series, ("--fault-mode", mode)),), mmap=())]
    return cases


def search(bench):
    cases = []
    for structure in ("vector", "ordered", "unordered"):
        file = bench.scratch / f"shared-search-{structure}"
        size = bench.make(file, SEARCH, "--structure", structure, "--bytes", option_bytes(bench.data_bytes), "--file",
                          file, "--keep", "--lookups", 1, "--json")
        for threads in bench.threads if structure == "vector" or not bench.brief else bench.threads[-1:]:
            cases += bench.compare(SEARCH, "--in", file, "--lookups", bench.choose(2000, 100000, 1 << 20),
                                   "--page-size", "4KiB", "--threads", threads, panel=structure, x=threads,
                                   metric="lookups_per_second", data_bytes=size, drop=(file,), tiermap=_modes(bench))
    return cases


def _kmer_bytes(bench):
    return bench.data_bytes // bench.choose(2, 1, 1)


def kmer_input(bench, error_rate):
    """A folder of genomes, and of reads with so many errors: the genomes are the same for all rates."""
    folder = bench.scratch / f"shared-genomes-{error_rate}"
    bench.make(folder, KMER, "--generate", folder, "--bytes", option_bytes(_kmer_bytes(bench)), "--read-count",
               bench.choose(2000, 50000, 500000), "--error-rate", error_rate, "--json")
    return folder


def built(bench, database, index, folder):
    """How large the database of a folder's genomes is, which is made unless it is there."""
    return bench.make(database, KMER, "--database", database, "--build-only", "--index", index, "--genomes",
                      folder / "genomes.fasta", "--taxonomy", folder / "taxonomy.tsv", "--sequence-taxa",
                      folder / "sequence-taxa.tsv", "--no-verify", "--budget", option_bytes(2 * bench.data_bytes),
                      "--json")


def kmer_database(bench, index):
    database = bench.scratch / f"shared-kmers-{index}"
    return database, built(bench, database, index, kmer_input(bench, 0.01))


def kmer_parts(bench):
    """A database for clients that share a machine with its servers, its size, and reads enough for all of them."""
    folder, database = bench.scratch / "shared-genomes-of-clients", bench.scratch / "shared-kmers-of-clients"
    bench.make(folder, KMER, "--generate", folder, "--bytes", option_bytes(bench.data_bytes // 4), "--read-count",
               bench.choose(2000, 20000, 50000), "--json")
    return database, built(bench, database, "two-level", folder), folder / "reads.fastq"


def _kmer(bench, index, error_rate, work, threads, **more):
    database, size = kmer_database(bench, index)
    reads = kmer_input(bench, error_rate) / "reads.fastq"
    options = ("--lookups", bench.choose(20000, 500000, 5000000)) if work == "lookup" else ()
    return bench.compare(KMER, "--database", database, "--reads", reads, "--work", work, *options, "--page-size",
                         "4KiB", "--threads", threads, limit=max(size // 4, 48 * MIB), data_bytes=size,
                         drop=(database,), metric="kmers_per_second" if work == "lookup" else "bases_per_second",
                         **{"x": threads, "tiermap": _modes(bench), "mmap": MMAP_RANDOM_FIRST, **more})


def kmer_lookup(bench):
    cases = []
    for index in ("two-level", "hash")[:1 if bench.detail == "aims" else 2]:
        for threads in bench.threads if index == "two-level" or not bench.brief else bench.threads[-1:]:
            cases += _kmer(bench, index, 0.01, "lookup", threads, panel=index)
    return cases


def kmer_threads(bench):
    return [case for threads in bench.threads for case in _kmer(bench, "two-level", 0.01, "classify", threads)]


# Not the papers' samples: the share of wrong bases decides how many k-mers of a read are in the database.
ERROR_RATES = (0.0, 0.01, 0.05)


def kmer_inputs(bench):
    cases = []
    for index in ("hash", "two-level"):
        for work in ("lookup", "classify")[:bench.choose(1, 2, 2)]:
            for rate in ERROR_RATES[:bench.choose(1, 3, 3)]:
                cases += _kmer(bench, index, rate, work, 64, panel=f"{index}, {work}", x=100 * rate,
                               tiermap=SELF_SERVING)
    return cases


def kmer_faults(bench):
    cases = []
    for rate in (*ERROR_RATES, 0.2)[:bench.choose(2, 4, 4)]:
        cases += _kmer(bench, "two-level", rate, "classify", 64, x=100 * rate, tiermap=SELF_SERVING)
    return cases


def kmer_optimisations(bench):
    variants = (("tiermap, default settings", {}), ("tiermap, memory follows what is free", {"TIERMAP_ADAPT": "1"}),
                ("tiermap, oldest page goes first", {"TIERMAP_POLICY": "fifo"}))
    cases = []
    for threads in bench.choose((64,), bench.threads, bench.threads):
        for series, environment in variants:
            cases += [dataclasses.replace(case, environment=environment, for_peers=False) for case in _kmer(
                bench, "two-level", 0.01, "classify", threads, tiermap=((series, SELF_SERVING[0][1]),), mmap=())]
        cases += _kmer(bench, "two-level", 0.01, "classify", threads, tiermap=())
    return cases


_LOOK_UP = "; memory is a quarter of it"
SCENARIOS = (
    Scenario("random-io-read", "Random accesses, read-only",
             "`tiermap-random-io`: each access loads one word of another block of 4 KiB, in random order. Direct I/O "
             "reads the block with `pread()` and O_DIRECT.", (RANDOM_IO,), lambda bench: random_io(bench, "read"),
             "threads", weight=1.5),
    Scenario("random-io-write", "Random accesses, write-only",
             "`tiermap-random-io`: each access adds 1 to a word of another block of 4 KiB. Direct I/O reads the block, "
             "changes it and writes it. The final sync() counts.", (RANDOM_IO,),
             lambda bench: random_io(bench, "write"), "threads", weight=1.5),
    Scenario("random-io-optimisations", "Random accesses: settings of the engine",
             "`tiermap-random-io`, read-only. Each line changes one setting of the engine.", (RANDOM_IO,),
             random_io_optimisations, "threads", weight=0.7),
    Scenario("search", "Look-ups in a vector, a tree and a hash table",
             f"`tiermap-search`: half of the keys looked up are there; every answer is checked{_LOOK_UP}.", (SEARCH,),
             search, "threads", weight=2),
    Scenario("kmer-lookup", "Raw k-mer look-up",
             "`tiermap-kmer --work lookup`: k-mers of generated reads, in a database with a two-level index and with a "
             f"hash index{_LOOK_UP}.", (KMER,), kmer_lookup, "threads", weight=2),
    Scenario("kmer-threads", "Classifying reads: threads", f"`tiermap-kmer`, two-level index{_LOOK_UP}.", (KMER,),
             kmer_threads, "threads"),
    Scenario("kmer-inputs", "Look-up and classification of several inputs",
             "`tiermap-kmer` by 64 threads, with both indexes; inputs are generated reads with 0, 1 and 5 % wrong "
             f"bases{_LOOK_UP}.", (KMER,), kmer_inputs, "wrong bases, %"),
    Scenario("kmer-faults", "Page faults of the classification",
             "`tiermap-kmer`, two-level index, 64 threads; inputs are generated reads with 0, 1, 5 and 20 % wrong "
             f"bases{_LOOK_UP}. Major faults are, for Tiermap, accesses to pages that are not there; minor ones are "
             "the kernel's count.", (KMER,), kmer_faults, "wrong bases, %"),
    Scenario("kmer-optimisations", "Classifying reads: settings of the engine",
             f"`tiermap-kmer`, two-level index{_LOOK_UP}. Each line changes one setting of the engine.", (KMER,),
             kmer_optimisations, "threads", weight=0.7),
)
