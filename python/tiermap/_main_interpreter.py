"""The extension module is one to a process: in a second interpreter it would take the types of the first away.

To be imported before anything that imports the extension module.
"""

from __future__ import annotations


def is_main() -> bool:
    """Whether this is the interpreter that the process began with."""
    try:
        import ctypes
    except ModuleNotFoundError:
        raise
    except ImportError:  # From Python 3.12 on the others have no ctypes.
        return False
    current = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyInterpreterState_Get", ctypes.pythonapi))
    number = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(("PyInterpreterState_GetID", ctypes.pythonapi))
    return bool(number(current()) == 0)


if not is_main():
    raise ImportError("tiermap is for the main interpreter of a process, and this is another: import it there (with "
                      "mod_wsgi: WSGIApplicationGroup %{GLOBAL})")
