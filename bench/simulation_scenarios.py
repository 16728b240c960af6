"""Scenarios of a simulation that writes checkpoints: tiermap-gray-scott."""
from cases import Case, Scenario, memory_for
from measurement import MIB, option_bytes

GRAY_SCOTT = "tiermap-gray-scott"
# What stands for a device in front of the disk that is there: bytes a second, and microseconds a transfer.
EMULATED = {"NVMe-class": ("2GiB", 80), "HDD-class": ("150MiB", 4000)}


def grid_bytes(size):
    return 2 * 4 * size ** 3


def tables_bytes(bench, size):
    """What the program keeps beside the grid: four planes of one species for each step of a pass, and a little for each
    thread."""
    return grid_bytes(size) // 16 + 2 * MIB * bench.cores


def computing(bench, size, steps, *options):
    return ("--threads", bench.cores, "--size", size, "--steps", steps, *options)


def memory(bench):
    size = bench.choose(192, 384, 512)
    data = grid_bytes(size)
    cases = []
    for percent in bench.points((50, 100), (25, 50, 100), (12.5, 25, 37.5, 50, 75, 100)):
        cases += bench.compare(GRAY_SCOTT, *computing(bench, size, 64), limit=memory_for(data, percent),
                               beside=tables_bytes(bench, size), data_bytes=data, x=percent, mmap=bench.mmap_with_hints)
    return cases


def twice(bench):
    size = bench.choose(192, 384, 512)
    data, tables = grid_bytes(size), tables_bytes(bench, size)
    cases = bench.compare(GRAY_SCOTT, *computing(bench, size, 64), limit=data // 2 - tables, beside=tables, data_bytes=data,
                          mmap=bench.mmap_with_hints)
    plain = [bench.program(GRAY_SCOTT), "--system", "memory", "--json", *computing(bench, size, 64)]
    for series, limit in (("plain memory, as much of it", data // 2), ("plain memory, no limit", None)):
        cases.append(Case(series, "memory", plain, limit=limit, data_bytes=data, for_peers=False))
    return cases


def tiers_file(bench, name):
    bandwidth, latency = EMULATED[name]
    path = bench.scratch / f"shared-{name}.yaml"
    if not bench.dry:
        path.write_text("block: 256KiB\n"
                        "tiers:\n"
                        f"  - {{name: {name}, kind: emulated, capacity: 2GiB, bandwidth: {bandwidth}, "
                        f"latency_microseconds: {latency}}}\n")
    return path


def tiers(bench):
    size, plotgap = bench.choose(128, 256, 384), 16
    cases = []
    for name in EMULATED:
        for how in ("background", "synchronous"):
            command = [bench.program(GRAY_SCOTT), "--json", "--budget", option_bytes(2 * grid_bytes(size)),
                       *computing(bench, size, 5 * plotgap, "--plotgap", plotgap), "--checkpoints", bench.scratch,
                       "--checkpoint", how, "--tiers", tiers_file(bench, name)]
            cases.append(Case(f"emulated {name} tier, {how}", "tiermap", command, data_bytes=grid_bytes(size),
                              for_peers=False))
    return cases


SCENARIOS = (
    Scenario("gray-scott-memory", "Gray-Scott: less memory",
             "`tiermap-gray-scott`, 64 steps without checkpoints. Memory is for a share of the grid, beside which the "
             "program has a sixteenth of it for the steps that it makes in one pass; all systems make as many steps in a "
             "pass as their memory has room for.", (GRAY_SCOTT,), memory, "memory, % of the grid"),
    Scenario("gray-scott-tiers", "Gray-Scott: checkpoints by way of emulated tiers",
             "`tiermap-gray-scott`, 80 steps, a checkpoint every 16, with memory for all. Each of the two datasets of a "
             "checkpoint has an emulated tier in front of its file: NVMe-class, 2 GiB/s and 80 us, or HDD-class, 150 MiB/s "
             "and 4 ms, in DRAM. The time is until the last checkpoint is durable in its file on the disk that is there. "
             "Written in the background, or between the steps.", (GRAY_SCOTT,), tiers),
    Scenario("gray-scott-twice", "Gray-Scott: a grid twice the memory",
             "`tiermap-gray-scott`, 64 steps, in a control group with memory for half of the grid and all that the "
             "program needs. With plain memory it is killed there.", (GRAY_SCOTT,), twice),
)
