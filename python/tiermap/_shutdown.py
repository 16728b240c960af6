"""The interpreter's end with arrays still alive: what was written to them reaches the stores."""

from __future__ import annotations

import atexit

from tiermap import _core, _fork


def end() -> None:
    """The last call of this package, but for those of daemon threads."""
    _core.lose_patience()
    try:
        _fork.write_all()
    finally:  # Ctrl-C ends the waiting for a store.
        _core.end_releases()


atexit.register(end)
