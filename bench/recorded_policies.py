#!/usr/bin/env python3
"""`make bench-policies`: which eviction policy suits the programs of this project, by what they really access.

Each program runs once on small data with a budget of some 64 pages, so that nearly every access to another page is
seen, and its trace is replayed through every policy. The misses go to bench/results/policies/, and
docs/policies-recorded.md is written from there.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import subprocess
import sys

from measurement import GIB, Interrupted, run_json, scratch_folder, unwind_on_signals

SHARES = ("10%", "25%", "50%")
# The engine mostly drops pages up to this size when they are to go, and keeps larger ones unmapped for a while.
LARGEST_DROPPED_PAGE = 16384
# Columns of the replay that are no policies of the engine.
BOUNDS = ("optimum", "true lru")


@dataclasses.dataclass(frozen=True)
class Recording:
    """A program whose accesses are recorded; the commands of `before` make what it reads, unrecorded."""
    name: str
    command: tuple
    page_size: str
    budget: str
    before: tuple = ()


def _search(structure):
    file = f"search-{structure}"
    made = ("tiermap-search", "--structure", structure, "--bytes", "32MiB", "--file", file, "--keep", "--lookups", "1")
    return Recording(f"search-{structure}", ("tiermap-search", "--in", file, "--lookups", "20000"), "4KiB", "256KiB",
                     (made,))


RECORDINGS = (
    Recording("sort", ("tiermap-sort", "--bytes", "64MiB"), "64KiB", "4MiB"),
    Recording("bfs-by-levels", ("tiermap-bfs", "--scale", "18", "--prefetch", "off"), "64KiB", "4MiB"),
    Recording("bfs-visitor-queues", ("tiermap-bfs", "--scale", "16", "--traversal", "visitor-queue", "--roots", "2"),
              "4KiB", "256KiB"),
    _search("vector"),
    _search("ordered"),
    _search("unordered"),
    Recording("kmer-classify", ("tiermap-kmer", "--database", "kmers", "--reads", "genomes/reads.fastq", "--prefetch",
                                "off"), "4KiB", "256KiB",
              (("tiermap-kmer", "--generate", "genomes", "--bytes", "32MiB"),
               ("tiermap-kmer", "--database", "kmers", "--build-only", "--genomes", "genomes/genomes.fasta",
                "--taxonomy", "genomes/taxonomy.tsv", "--sequence-taxa", "genomes/sequence-taxa.tsv", "--no-verify"))),
    Recording("median", ("tiermap-median", "--bytes", "64MiB", "--vectors", "5000"), "64KiB", "4MiB"),
    Recording("ycsb-a", ("tiermap-ycsb", "--workload", "a", "--bytes", "16MiB", "--durability", "none"), "4KiB",
              "512KiB"),
    Recording("ycsb-e", ("tiermap-ycsb", "--workload", "e", "--bytes", "32MiB", "--durability", "none", "--index",
                         "ordered", "--operations", "5000"), "4KiB", "512KiB"),
    Recording("ingest", ("tiermap-ingest", "--scale", "14"), "4KiB", "512KiB"),
)


def record(recording, binaries, scratch):
    """Runs the program; returns the replay of its trace, or the reason why there is none."""
    trace = scratch / "run.trace"
    for file in scratch.glob("run.trace*"):
        file.unlink()
    for program, *arguments in recording.before:
        made = run_json([binaries / program, *arguments, "--json"], cwd=scratch, environment={"TMPDIR": str(scratch)})
        if made.get("failed"):
            return None, made["failed"]
    command = [*recording.command, "--page-size", recording.page_size, "--budget", recording.budget, "--threads", "2"]
    ran = run_json([binaries / command[0], *command[1:], "--json"], cwd=scratch,
                   environment={"TMPDIR": str(scratch), "TIERMAP_TRACE": str(trace), "TIERMAP_READ_AHEAD": "0"})
    if ran.get("failed"):
        return None, ran["failed"]
    # A program of several caches leaves a trace of each: the one with the most accesses tells most.
    longest = max(scratch.glob("run.trace*"), key=lambda file: file.stat().st_size)
    results = []
    for more in ((), ("--drop",)):
        replayed = subprocess.run([binaries / "tiermap", "replay", longest, "--budget", *SHARES, "--json", *more],
                                  check=False, capture_output=True, text=True)
        if replayed.returncode != 0:
            return None, replayed.stderr.strip()
        results.append(json.loads(replayed.stdout)["traces"][0])
    result = results[0]
    del result["trace"]
    if result["page_bytes"] <= LARGEST_DROPPED_PAGE:
        result["budgets_dropping"] = results[1]["budgets"]
    return {"command": command, **result}, None


def relative(misses, column):
    """How many more misses than LRU that sees every access, in percent."""
    return 100 * (misses[column] / misses["true lru"] - 1)


def _row(cells):
    return "| " + " | ".join(cells) + " |"


def _table(results, budgets, policies):
    """The misses of all replays that have such budgets, and their means."""
    lines = [
        _row(["program", "accesses", "pages", "memory", "LRU misses", "optimum", *policies]),
        _row(["---"] * (6 + len(policies)))]
    logarithms = {share: {policy: [] for policy in policies} for share in SHARES}
    for name, result in results.items():
        for share, budget in zip(SHARES, result.get(budgets, [])):
            misses = budget["misses"]
            first = share == SHARES[0]
            size = f"{result['pages']:,} of {result['page_bytes'] >> 10} KiB"
            lines.append(_row([name if first else "", f"{result['accesses']:,}" if first else "", size if first else "",
                               share.replace("%", " %"), f"{misses['true lru']:,}",
                               *(f"{relative(misses, column):+.1f}" for column in ("optimum", *policies))]))
            for policy in policies:
                logarithms[share][policy].append(math.log(misses[policy] / misses["true lru"]))
    for share in SHARES:
        means = {policy: 100 * (math.exp(sum(values) / len(values)) - 1)
                 for policy, values in logarithms[share].items()}
        lines.append(_row(["**geometric mean**", "", "", share.replace("%", " %"), "", "",
                           *(f"**{means[policy]:+.1f}**" for policy in policies)]))
    return lines


def page_of(results):
    """The page that is made of the replays, by name."""
    policies = [column for column in next(iter(results.values()))["budgets"][0]["misses"] if column not in BOUNDS]
    lines = [
        "# Eviction policies on recorded traces", "",
        "`make bench-policies` wrote this page from `bench/results/policies/`: each program of this project ran once on small data,",
        "its accesses were recorded (TIERMAP_TRACE, with a budget of 64 to 128 pages) and replayed through every policy, as `tiermap",
        "replay` does. Numbers are **misses relative to LRU that sees every access, in percent** (negative is better); \"optimum\" is",
        "Belady's; \"memory\" is in percent of the pages accessed. Synthetic traces, and what the policies do: [policies](policies.md).",
        ""]
    lines += _table(results, "budgets", policies)
    lines += [
        "", "## Small pages, dropped", "",
        "Above, pages that are to go are kept unmapped for a while, and policies see which of them are touched. Of pages up to 16 KiB",
        "the engine keeps few when they are not asked for again ([why](design.md#small-pages)), and then policies see only what comes",
        "back: `tiermap replay --drop`, with 5 to 10 % of memory free and one page in 64 kept. LRU and the optimum have all of it.", ""]
    lines += _table(results, "budgets_dropping", policies)
    lines += ["", "The commands, to be run in an empty folder. Those with TIERMAP_TRACE were recorded, those before them make what they",
              "read:", "", "```"]
    for recording in (recording for recording in RECORDINGS if recording.name in results):
        lines += [" ".join(command) for command in recording.before]
        lines.append(f"TIERMAP_TRACE={recording.name}.trace TIERMAP_READ_AHEAD=0 "
                     + " ".join(results[recording.name]["command"]))
    return "\n".join([*lines, "```", ""])


def read_results(folder):
    """The replays that are there, in the order of the programs."""
    paths = [(recording.name, folder / f"{recording.name}.json") for recording in RECORDINGS]
    return {name: json.loads(path.read_text()) for name, path in paths if path.exists()}


def main(root=pathlib.Path(__file__).resolve().parent.parent):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=root / "build/release/bin", help="where the programs are")
    parser.add_argument("--only", action="append", choices=[recording.name for recording in RECORDINGS],
                        help="record only this (repeatable)")
    parser.add_argument("--render", action="store_true", help="write the page from the results that are there")
    options = parser.parse_args()
    folder = root / "bench/results/policies"
    folder.mkdir(parents=True, exist_ok=True)
    unwind_on_signals()
    problems = []
    if not options.render:
        try:
            with scratch_folder(root / "build/bench", GIB) as scratch:
                for recording in RECORDINGS:
                    if options.only and recording.name not in options.only:
                        continue
                    result, problem = record(recording, options.bin.resolve(), scratch)
                    if problem:
                        problems.append(f"{recording.name}: {problem}")
                    else:
                        (folder / f"{recording.name}.json").write_text(json.dumps(result, indent=1) + "\n")
        except Interrupted:
            return 130
    results = read_results(folder)
    if results:
        (root / "docs/policies-recorded.md").write_text(page_of(results))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
