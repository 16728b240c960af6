"""exec() ends a script without the interpreter's own end: what arrays have is written before."""

from __future__ import annotations

import functools
import os
from typing import Any

from tiermap import _fork


def writing_first(replace_program: Any) -> Any:
    @functools.wraps(replace_program)
    def run(*arguments: Any, **named: Any) -> Any:
        _fork.write_with_what_ends()
        return replace_program(*arguments, **named)

    return run


for name in ("execv", "execve"):  # All others call one of these.
    replaced = getattr(os, name)
    setattr(os, name, writing_first(replaced))
    if replaced in os.supports_fd:
        os.supports_fd.add(getattr(os, name))
