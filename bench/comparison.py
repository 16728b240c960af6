"""Ratios between measured points: how many times better one choice of settings is than another."""
import dataclasses
import statistics

from results import advantage, better_of, points_of


@dataclasses.dataclass(frozen=True)
class Pick:
    """Which points count; of those, the best one does."""
    system: str = "tiermap"
    # How the name of the series begins.
    series: str = ""
    # A value of x, "highest", "lowest", or None for the best of all.
    x: object = None


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How many times better `ours` is than `other`, in one panel, by a metric of the reports. `within`: what `other` did,
    by this figure in the reports of `ours`, of which more is better. From process to process the same loop over the same memory differs
    by more than the two do; what one process measured in turn does not."""
    ours: Pick = Pick()
    other: Pick = Pick("mmap")
    panel: str | None = None
    metric: str | None = None
    within: str | None = None


@dataclasses.dataclass(frozen=True)
class Amount:
    """What was counted or measured of one point, which is compared with no other."""
    ours: Pick = Pick()
    panel: str | None = None
    metric: str | None = None


@dataclasses.dataclass(frozen=True)
class Found:
    """A ratio, and the two points that it is of; or an amount, and its point."""
    value: float
    ours: object
    other: object = None

    @property
    def points(self):
        return (self.ours,) if self.other is None else (self.ours, self.other)

    @property
    def runs(self):
        return min(len(point.values) for point in self.points)

    @property
    def date(self):
        return max(point.runs[-1]["time"] for point in self.points)[:10]


def candidates(points, pick, panel):
    return [point for point in points if point.system == pick.system and point.series.startswith(pick.series)
            and panel in (None, point.panel)]


def choose(points, pick, panel, x=None):
    """The best of the points that were picked, None if there is none. A point without an x holds for every x."""
    found = [point for point in candidates(points, pick, panel) if point.good and (x is None or point.x in (None, x))]
    if not found:
        return None
    return (min if better_of(found[0].metric) == "less" else max)(found, key=lambda point: point.median)


def place_of(points, pick, panel):
    """The value of x that a pick means. A highest or lowest one counts only if that point was measured: to compare at
    another place in silence would be to choose what suits."""
    if pick.x not in ("highest", "lowest"):
        return pick.x
    places = [point.x for point in candidates(points, pick, panel) if point.x is not None]
    return (max if pick.x == "highest" else min)(places) if places else None


def advantage_within(ours, within):
    """How many times more ours is than this figure of the same run's report, by the median of the runs."""
    return statistics.median(run["value"] / run["result"][within] for run in ours.runs if not run["failed"])


def ratio_of(lines, ratio):
    """The ratio in these results, or None if either side is not there."""
    points = points_of(lines, ratio.metric)
    x = place_of(points, ratio.ours, ratio.panel)
    ours = choose(points, ratio.ours, ratio.panel, x)
    other = choose(points, ratio.other, ratio.panel, x if ratio.other.x is None else place_of(points, ratio.other,
                                                                                             ratio.panel))
    if ours is None or other is None:
        return None
    if ratio.within is not None:
        value = advantage_within(ours, ratio.within)
        return Found(value, ours, dataclasses.replace(other, runs=ours.runs, values=ours.values))
    value = advantage(ours, other)
    return None if value is None else Found(value, ours, other)


def amount_of(lines, amount):
    """The amount in these results, or None if it is not there."""
    points = points_of(lines, amount.metric)
    ours = choose(points, amount.ours, amount.panel, place_of(points, amount.ours, amount.panel))
    return None if ours is None else Found(ours.median, ours)


def points_over_threads(lines, panel=None):
    """Tiermap's, from 2 to 64 threads."""
    return [point for point in candidates(points_of(lines), Pick(), panel)
            if point.good and isinstance(point.x, (int, float)) and 2 <= point.x <= 64]


def worst_step(lines, panel=None):
    """The least that the throughput of Tiermap's best series is multiplied by as threads are added, from 2 to 64:
    (ratio, from, to), or None with fewer than two points. Below 1 it falls."""
    points = points_over_threads(lines, panel)
    steps = []
    for name in dict.fromkeys((point.panel, point.series) for point in points):
        line = sorted((point for point in points if (point.panel, point.series) == name), key=lambda point: point.x)
        steps += [(advantage(later, earlier), earlier, later) for earlier, later in zip(line, line[1:])]
    return min(steps, key=lambda step: step[0]) if steps else None
