"""Arrays larger than memory, under an exact memory budget.

``tiermap.map()`` gives a numpy array whose memory is a file, or any other store that Tiermap knows: loads and stores
just work, and no more than a budget of it is in memory at once. ``tiermap.memmap`` takes ``numpy.memmap``'s arguments.
"""

from __future__ import annotations

from tiermap import _main_interpreter as _main_interpreter  # isort: skip
from tiermap import _core
from tiermap import _ending_signals as _ending_signals
from tiermap import _exec as _exec
from tiermap import _fork as _fork
from tiermap import _shutdown as _shutdown
from tiermap._array import Array
from tiermap._cache import Cache, default_cache
from tiermap._heap import Heap, open_heap
from tiermap._heap_values import HeapObject
from tiermap._map import map
from tiermap._memmap import memmap
from tiermap._operations import advise, blocks, drop, flush, pin, prefetch, stats, sync, unpin
from tiermap._page_size import choose_page_size
from tiermap._python_store import Store, StoreFailure
from tiermap._statistics import Statistics

__version__: str = _core.version
__all__ = [
    "Array",
    "Cache",
    "Heap",
    "HeapObject",
    "Statistics",
    "Store",
    "StoreFailure",
    "advise",
    "blocks",
    "choose_page_size",
    "default_cache",
    "drop",
    "flush",
    "map",
    "memmap",
    "open_heap",
    "pin",
    "prefetch",
    "stats",
    "sync",
    "unpin",
]
