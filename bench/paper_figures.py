"""The figures and tables of five papers, the scenario that mirrors each, and the values that their texts give.

What the papers show in a plot only has no value here: nothing was read off a picture. `IMPOSSIBLE` says what cannot be
mirrored on one machine with one disk, and why.
"""
import dataclasses

from comparison import Pick, Ratio

KIB = 1 << 10
MIB = 1 << 20

PAPERS = {
    "umap-tpds": ("UMap", "Peng and others, *Enabling Scalable and Extensible Memory-mapped Datastores in Userspace*, "
                  "IEEE Transactions on Parallel and Distributed Systems, 2021"),
    "umap-mchpc": ("UMap, MCHPC", "Peng and others, *UMap: Enabling Application-driven Optimizations for Page "
                   "Management*, MCHPC, 2019"),
    "sparsestore": ("SparseStore", "Youssef and others, *Towards Optimizing Memory Mapping of Persistent Memory in "
                                   "UMap*"),
    "di-mmap": ("DI-MMAP", "Van Essen and others, *DI-MMAP: a scalable memory-map runtime for out-of-core "
                "data-intensive applications*, Cluster Computing, 2015"),
    "megammap": ("MegaMmap", "Logan and others, *MegaMmap: Blurring the Boundary Between Memory and Storage for "
                 "Data-Intensive Workloads*, SC, 2024"),
}


@dataclasses.dataclass(frozen=True)
class Value:
    """A number in a paper's text, where it stands, and what of ours stands beside it."""
    text: str
    paper: float
    where: str
    ours: Ratio
    # The end of a range that the paper gives.
    paper_to: float | None = None


@dataclasses.dataclass(frozen=True)
class Figure:
    """One figure of a paper and what mirrors it."""
    paper: str
    number: str
    shows: str
    scenario: str
    values: tuple = ()
    # Which panels of the scenario are drawn; all if none are named.
    panels: tuple = ()
    # Drawn as times the best mmap, as the paper does.
    relative: bool = False
    # Other metrics of the same reports, a panel each.
    metrics: tuple = ()

    @property
    def key(self):
        return f"{self.paper}-{self.number.lower().replace('. ', '-').replace(' ', '-')}"


HIGHEST, LOWEST = Pick(x="highest"), Pick(x="lowest")
OVERALL = Ratio()


def between(first, second, x=None, panel=None):
    """One series against another at the same place, both Tiermap's."""
    return Ratio(Pick(series=first, x=x), Pick("tiermap", second, x), panel)


def _faults(percent, metric):
    return Ratio(Pick(x=percent), Pick("mmap", x=percent), metric=metric)


TABLE_3 = tuple(
    Value(f"input {name}: {kind} faults of mmap by UMap's", paper, "section 6.3, and Table 3", _faults(percent, metric))
    for name, percent, major, minor in (("S7", 0.0, 1.31, 1.96), ("S8", 1.0, 1.48, 3.62), ("S9", 5.0, 1 / 1.36, 1.93),
                                        ("S10", 20.0, 1.09, 2.32))
    for kind, paper, metric in (("major", major, "faults"), ("minor", minor, "minor_faults")))

FIGURES = (
    Figure("umap-tpds", "Fig. 3a", "Sort: time over threads, 8 MiB pages", "sort-threads", (
        Value("at the most threads (240)", 1.22, "section 6.2: \"by 1.15-1.22x when running with 48 to 240 application "
              "threads\"", Ratio(HIGHEST)),)),
    Figure("umap-tpds", "Fig. 3b", "Breadth-first search: time over threads", "bfs-threads", (
        Value("at best", 1.30, "section 6.2: \"by up to 1.30x on a scale 31 RMAT graph\"", OVERALL),)),
    Figure("umap-tpds", "Fig. 3c", "N-Store, YCSB: throughput over executors", "ycsb-threads", (
        Value("at the fewest executors (4)", 1.30, "section 6.2, Database Operations", Ratio(LOWEST, panel="A")),
        Value("at the most executors (64)", 1.90, "section 6.2, Database Operations", Ratio(HIGHEST, panel="A")))),
    Figure("umap-tpds", "Fig. 3d", "LMAT, classifying reads: over threads", "kmer-threads", (
        Value("at the most threads (240)", 1.36, "section 6.2: \"reached 1.36x at 240 threads\"", Ratio(HIGHEST)),)),
    Figure("umap-tpds", "Fig. 4a", "Sort: what each optimisation of UMap gives", "sort-optimisations", (
        Value("late eviction against early, at the most threads", 1.11, "section 6.3: \"umap_watermark brings an "
              "additional 1.11x improvement\"", Ratio(Pick(series="tiermap, default", x="highest"),
                                           Pick("tiermap", "tiermap, eviction from 70 %"))),)),
    Figure("umap-tpds", "Fig. 4b", "LMAT: what each optimisation of UMap gives", "kmer-optimisations"),
    Figure("umap-tpds", "Table 3", "LMAT: major and minor page faults of four inputs", "kmer-faults", TABLE_3,
           metrics=("faults", "minor_faults")),
    Figure("umap-tpds", "Fig. 5a", "Breadth-first search: time over the size of the buffer", "bfs-memory"),
    Figure("umap-tpds", "Fig. 5b", "Breadth-first search: time over page sizes", "bfs-page-size", (
        Value("32 KiB pages and more against 4 KiB", 6.0, "section 6.4: \"from 4KB to 32KB, the execution speeds up "
              "steadily six times\"",
              Ratio(Pick(series="tiermap"), Pick("tiermap", x=4 * KIB), "ratio 4")),), ("ratio 4",)),
    Figure("umap-tpds", "Fig. 6a", "Breadth-first search: time over scales, memory for half of the graph", "bfs-scale"),
    Figure("umap-tpds", "Fig. 7", "LMAT, look-ups by several clients of one database in the memory of three others: all "
           "clients together", "kmer-clients", metrics=("kmers_per_second", "processors_at_work_percent")),
    Figure("umap-tpds", "Fig. 8", "Metall: throughput of graph construction over page sizes", "ingest-page-size", (
        Value("pages of 16 to 256 KiB against mmap", 5.0, "section 7.2: \"by five to 12 times\"", OVERALL,
              paper_to=12.0),
        Value("1,024 files against one, 16 KiB pages", 1.7, "section 7.2",
              between("tiermap, 1024 files", "tiermap, one file", 16 * KIB)),)),
    Figure("umap-mchpc", "Fig. 2", "Sort: times mmap over page sizes", "sort-page-size", (
        Value("at best (8 MiB pages)", 2.5, "section 6.1: \"achieves 2.5 times speedup\"", OVERALL),), relative=True),
    Figure("umap-mchpc", "Fig. 3", "Breadth-first search: times mmap over page sizes", "bfs-page-size", (
        Value("at best (512 KiB pages)", 1.8, "section 6.2: \"overperformed mmap by 1.8X with 512 KB page size\"",
              Ratio(panel="ratio 4")),), ("ratio 4", "ratio 2"), relative=True),
    Figure("umap-mchpc", "Fig. 5", "Asteroid detection: vectors a second over page sizes, local disk (the paper: time)",
           "median-page-size"),
    Figure("umap-mchpc", "Fig. 7", "N-Store, YCSB: throughput over page sizes", "ycsb-page-size", (
        Value("at best (32 KiB pages)", 1.34, "section 6.5: \"about 34% improvement of the mmap version\"", OVERALL),)),
    Figure("umap-mchpc", "Fig. 8", "N-Store, YCSB: times mmap over executors", "ycsb-threads", (
        Value("at the fewest executors (4)", 1.3, "section 6.5: \"from 1.3x to 1.6x\"", Ratio(LOWEST, panel="A")),
        Value("at the most executors (32)", 1.6, "section 6.5: \"from 1.3x to 1.6x\"", Ratio(HIGHEST, panel="A"))),
        ("A",), relative=True),
    Figure("sparsestore", "Fig. 2a", "Graph construction: throughput over page sizes", "ingest-page-size", (
        Value("1,024 files against mmap, at best", 12.0, "section III: \"nearly a 12x speedup over system-level mmap\"",
              Ratio(Pick(series="tiermap, 1024 files"))),
        Value("1,024 files against one, 16 KiB pages", 2.0, "section III: \"nearly 2x speedup\"",
              between("tiermap, 1024 files", "tiermap, one file", 16 * KIB)))),
    Figure("sparsestore", "Fig. 2b", "Sort: time over page sizes", "sort-sparse", (
        Value("32 files against one, 64 KiB pages", 1.06, "section III: \"a slight 6% improvement\"",
              between("tiermap, 32 files", "tiermap, one file", 64 * KIB)),)),
    Figure("di-mmap", "Fig. 3", "Random reads a second over threads", "random-io-read", (
        Value("of direct I/O, at 128 threads", 0.87, "section 6.1: \"only a 13 % loss in IOPs compared to direct I/O "
              "at 128 threads\"", Ratio(Pick(x=128), Pick("direct", x=128))),)),
    Figure("di-mmap", "Fig. 4", "Random writes a second over threads", "random-io-write", (
        Value("against mmap in as much memory", 2.0, "section 6.1: \"a bit more than double\"", OVERALL),)),
    Figure("di-mmap", "Fig. 5", "What optimisations give: random reads a second over threads",
           "random-io-optimisations", (
        Value("pages dropped in batches against one by one (here: copied, not moved)", 1 / 0.756,
              "section 6.2: \"0.756x the IOPS\"", Ratio(Pick(series="tiermap self-serving, default", x="highest"), Pick(
                  "tiermap", "tiermap self-serving, pages moved"))),)),
    Figure("di-mmap", "Fig. 6", "Look-ups a second in a vector, an ordered and an unordered map", "search"),
    Figure("di-mmap", "Fig. 7a", "Raw k-mer look-up, hash index: k-mers a second over threads", "kmer-lookup", (
        Value("best against mmap's best", 4.92, "section 6.4", Ratio(panel="hash")),), ("hash",)),
    Figure("di-mmap", "Fig. 7b", "Raw k-mer look-up, two-level index: k-mers a second over threads", "kmer-lookup", (
        Value("best against mmap's best", 244000 / 60600, "section 6.4: 244,000 against 60,600 k-mers a second",
              Ratio(panel="two-level")),), ("two-level",)),
    Figure("di-mmap", "Fig. 8", "Look-up and classification of three inputs, hash index", "kmer-inputs", (
        Value("look-up, input of the greatest factor (ours: no wrong bases)", 4.0, "section 6.4: \"the greatest of 4x "
              "for the SRX input set\"", Ratio(Pick(x=0.0), panel="hash, lookup")),
        Value("look-up, input of the smallest factor (ours: 5 % wrong bases)", 2.7, "section 6.4: \"smallest of 2.7x "
              "for the ERR input set\"", Ratio(Pick(x=5.0), panel="hash, lookup"))),
           ("hash, lookup", "hash, classify")),
    Figure("di-mmap", "Fig. 9", "Look-up and classification of three inputs, two-level index", "kmer-inputs", (
        Value("look-up, input of the greatest factor (ours: no wrong bases)", 3.8, "section 6.4: \"the greatest of "
              "3.8x for the SRX input set\"", Ratio(Pick(x=0.0), panel="two-level, lookup")),
        Value("look-up, input of the smallest factor (ours: 5 % wrong bases)", 3.3, "section 6.4: \"smallest of 3.3x "
              "for the DRR input set\"", Ratio(Pick(x=5.0), panel="two-level, lookup"))),
           ("two-level, lookup", "two-level, classify")),
    Figure("di-mmap", "Fig. 10", "Visitor queues, graph on the store: edges a second", "bfs-semi-external", (
        Value("of plain memory", 0.57, "section 6.5.1: \"about half of (0.57x) the in-memory performance\"",
              Ratio(other=Pick("memory"))),)),
    Figure("di-mmap", "Fig. 11", "Visitor queues, graph on the store: less memory", "bfs-semi-external-memory"),
    Figure("di-mmap", "Fig. 12", "Visitor queues, all on the store: edges a second", "bfs-fully-external", (
        Value("against mmap, at the most threads (256)", 7.44, "section 6.5.2", Ratio(HIGHEST)),)),
    Figure("di-mmap", "Fig. 13", "Visitor queues, all on the store: less memory", "bfs-fully-external-memory", (
        Value("times as long with half of the memory", 1.23, "section 6.5.2: \"only 1.23x slower\"",
              Ratio(Pick(series="tiermap self", x=25), Pick("tiermap", "tiermap self", 12.5))),
        Value("75 % of the buffer for hot pages against none", 1.48, "section 6.5.2",
              between("tiermap, 75 % for hot pages", "tiermap, 0 % for hot pages", 25)))),
    Figure("megammap", "Fig. 5", "all in memory: against the programs that it replaces, here in plain memory",
           "applications-in-memory"),
    Figure("megammap", "Fig. 5 k-means", "time against Spark", "kmeans-spark", (
        Value("times as fast as Spark, with less memory (here: a quarter)", 2, "Fig. 5: \"as much as 2x faster than "
              "Spark\", which \"used 3-4x the amount of DRAM\"", Ratio(other=Pick("spark"))),)),
    Figure("megammap", "Fig. 5 random forest", "time against Spark", "forest-spark", (
        Value("times as fast as Spark, with less memory (here: a quarter)", 2, "Fig. 5: \"as much as 2x faster than "
              "Spark\", which \"used 3-4x the amount of DRAM\"", Ratio(other=Pick("spark"))),)),
    Figure("megammap", "Fig. 5 ranks", "all in memory: ranks against plain MPI", "weak-scaling"),
    Figure("megammap", "Fig. 5 k-means by ranks", "two ranks against Spark with two workers", "kmeans-spark-ranks", (
        Value("times as fast as Spark, with less memory (here: a quarter)", 2, "Fig. 5: \"as much as 2x faster than "
              "Spark\", which \"used 3-4x the amount of DRAM\"", Ratio(other=Pick("spark"))),)),
    Figure("megammap", "Fig. 5 random forest by ranks", "two ranks against Spark with two workers", "forest-spark-ranks", (
        Value("times as fast as Spark, with less memory (here: a quarter)", 2, "Fig. 5: \"as much as 2x faster than "
              "Spark\", which \"used 3-4x the amount of DRAM\"", Ratio(other=Pick("spark"))),)),
    Figure("megammap", "Fig. 6", "Gray-Scott in more cells than memory has room for", "gray-scott-twice"),
    Figure("megammap", "Fig. 7", "Gray-Scott with checkpoints by way of emulated tiers", "gray-scott-tiers", (
        Value("by an NVMe-class tier against an HDD-class tier, both emulated here", 1.8, "Fig. 7: \"improves "
              "performance as much as 1.8x by using NVMe\"", between("emulated NVMe-class tier, background",
                                                                     "emulated HDD-class tier, background")),
        Value("written in the background against between the steps", 1.2, "Fig. 6: \"at least 20% faster\"",
              between("emulated NVMe-class tier, background", "emulated NVMe-class tier, synchronous")))),
    Figure("megammap", "Fig. 8 k-means", "time over the size of memory", "kmeans-memory", (
        Value("times as long with 1/2.6 of the memory (here: a quarter)", 1.1, "Fig. 8: \"as much as 2.6x while "
              "maintaining competitive (within 10%) performance\"", Ratio(Pick(x=100), Pick("tiermap", x=25))),)),
    Figure("megammap", "Fig. 8 DBSCAN", "time over the size of memory", "dbscan-memory", (
        Value("times as long with half of the memory (here: 0.4)", 1.1, "Fig. 8: \"DBSCAN and RF can use 2x less DRAM with "
              "minimal performance overhead\"", Ratio(Pick(x=100), Pick("tiermap", x=40))),)),
    Figure("megammap", "Fig. 8 random forest", "time over the size of memory", "forest-memory", (
        Value("times as long with half of the memory (here: 0.4)", 1.1, "Fig. 8: \"DBSCAN and RF can use 2x less DRAM with "
              "minimal performance overhead\"", Ratio(Pick(x=100), Pick("tiermap", x=40))),)),
    Figure("megammap", "Fig. 8 Gray-Scott", "time over the size of memory", "gray-scott-memory", (
        Value("times as long with half of the memory", 1.1, "Fig. 8: \"competitive (within 10%) performance\"",
              Ratio(Pick(x=100), Pick("tiermap", x=50))),)),
)

# What is not mirrored, and why: (paper, figure, what it shows, reason).
IMPOSSIBLE = (
    ("umap-tpds", "Fig. 6b", "breadth-first search on three kernel versions on three machines",
     "a machine runs one kernel; results of other machines can be put beside these by running the harness there"),
    ("umap-mchpc", "Fig. 4", "lrzip over page sizes", "the paper changed lrzip; here it runs unchanged, at one page size: "
     "scenario `unmodified`"),
    ("umap-mchpc", "Fig. 6", "asteroid detection on a local disk and on Lustre", "needs a Lustre file system; the "
     "local disk is Fig. 5"),
    ("megammap", "Fig. 5 to 8", "1 to 32 nodes", "one machine here, with two cores: time is that of one process or of two "
     "ranks; of eight ranks the bytes between them are counted"),
    ("megammap", "Fig. 6", "Gray-Scott over OrangeFS, Assise and Hermes", "they need several nodes, a kernel of their own, or "
     "have no package; beside Tiermap there is the same program that writes between the steps (Fig. 7)"),
)
# Inputs that are not the papers' own, said wherever they are shown.
STAND_INS = {
    "kmer-inputs": "The paper's inputs are three sequenced samples; ours are generated reads that differ in how many "
                   "of their k-mers are in the database.",
    "kmer-clients": "The paper's clients and servers are seven machines; ours are as many processes on two cores, which is "
                    "where it ends to grow. The paper classifies; here k-mers are looked up.",
    "weak-scaling": "The paper has up to 32 nodes; here there are two cores.",
    "kmer-faults": "The paper's inputs S7 to S10 are production samples; ours are generated reads with 0, 1, 5 and 20 "
                   "% of their bases wrong. UMap's optimisation of static caching has no counterpart here.",
    "kmer-optimisations": "Static caching of a part of the database, which is one of the paper's lines, has no "
                          "counterpart in Tiermap.",
    "random-io-optimisations": "DI-MMAP's settings are those of a kernel module; ours are those of this engine that "
                               "decide the same costs: how a page is put into place and dropped, and how a fault is "
                               "waited for.",
    "applications-in-memory": "The paper's rivals are MPI programs of several nodes; ours are the same programs in plain "
                              "memory.",
    "forest-memory": "The paper's table is Gadget's particles and the clusters that DBSCAN found; ours is generated: "
                     "particles around planted centres, and which centre it is.",
    "bfs-memory": "Memory beside the pages (what the search keeps for each vertex) is not in the share.",
}
