"""What a cache or an array did, as a dictionary that shows itself well."""

from __future__ import annotations

import html
from typing import Any, Dict, List, Tuple

from tiermap import _core


class Statistics(Dict[str, Any]):
    """Counters by name, such as ``read_faults`` or ``resident_bytes``.

    A plain ``dict``: ``docs/reference.md`` and ``include/tiermap/statistics.hpp`` say what each is. ``stages`` holds,
    for each stage of serving a fault, how often it was timed, its median and its 99th percentile in nanoseconds.

    Attributes
    ----------
    hit_ratio : float
        Share of the pages that were asked for by a fault and were still in memory.
    """

    title = "Tiermap"

    @property
    def hit_ratio(self) -> float:
        """Rescues over rescues and fills by faults; 1 where nothing was asked for."""
        filled = max(self["fills"] - self["prefetched_pages"], 0)
        asked = filled + self["rescues"]
        return self["rescues"] / asked if asked else 1.0

    def rows(self) -> List[Tuple[str, str]]:
        """What the tables show: names and values for people."""
        rows = [(name, _core.format_size(self[name]) if name == "budget_bytes" else rounded(self[name]))
                for name in ("budget_bytes", "resident_bytes", "mapped_bytes", "dirty_bytes", "read_bytes",
                             "written_bytes")]
        rows += [(name, f"{self[name]:,}") for name in ("read_faults", "write_faults", "protect_faults", "fills",
                                                        "rescues", "evictions", "write_backs", "prefetched_pages",
                                                        "read_errors", "write_errors")]
        total = self["stages"]["total"]
        rows.append(("fault, median", f"{total['median_nanoseconds'] / 1000:.0f} us"))
        rows.append(("fault, 99 %", f"{total['p99_nanoseconds'] / 1000:.0f} us"))
        return rows

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"  {name:17} {value}" for name, value in self.rows())])

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><td>{html.escape(name)}</td><td style='text-align:right'>{html.escape(value)}</td></tr>"
                        for name, value in self.rows())
        return f"<table><caption>{html.escape(self.title)}</caption>{cells}</table>"


def rounded(count: int) -> str:
    """Bytes for people: three digits and a unit."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} TiB"
