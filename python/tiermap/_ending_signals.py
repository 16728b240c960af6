"""Signals that end a script: handlers of Tiermap's, which write what arrays have, stand where it has set none.

Who sets a handler for a while puts the default back after it, and who tidies up in a handler ends by the same signal: it
sets the default, and sends the signal to itself. Either leaves no handler of Tiermap's, which is set again here.
"""

from __future__ import annotations

import functools
import signal
from typing import Any

from tiermap import _core

# What signal.signal() calls, whoever has that by which name.
_module: Any = vars(signal)["_signal"]
_set_handler: Any = _module.signal


@functools.wraps(_set_handler)
def set_handler(number: int, handler: Any, /) -> Any:
    before = _set_handler(number, handler)
    _core.take_ending_signal(number)
    return before


_module.signal = set_handler
