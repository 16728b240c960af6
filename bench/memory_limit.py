"""Runs programs under a memory limit: a control group of their own, version 1 or 2, made and removed here.

Page cache counts against the group, so mmap is held to the same memory as a program that keeps its own pages.
"""
import os
import pathlib
import shutil
import subprocess
import time

PROC = pathlib.Path("/proc")


class LimitUnavailable(Exception):
    """No memory limit can be set here; the text says why."""


def _own_group(controller):
    """The path of this process's group in a hierarchy of version 1 (by controller) or 2 (controller '')."""
    for line in (PROC / "self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") if controller else controllers == "":
            return path
    return None


def _mount_point(kind, option):
    """Where the hierarchy is mounted: kind cgroup with an option such as memory, or cgroup2."""
    for line in (PROC / "mounts").read_text().splitlines():
        _, where, what, options = line.split()[:4]
        if what == kind and (option is None or option in options.split(",")):
            return pathlib.Path(where)
    return None


def _as_root(*command):
    """Whether a command succeeded by sudo without a password."""
    if os.geteuid() == 0 or not shutil.which("sudo"):
        return False
    return subprocess.run(["sudo", "-n", *command], stdin=subprocess.DEVNULL, capture_output=True,
                          check=False).returncode == 0


def _write(path, text):
    try:
        path.write_text(text)
    except PermissionError:
        done = subprocess.run(["sudo", "-n", "tee", str(path)], input=text, text=True, capture_output=True,
                              check=False) if shutil.which("sudo") else None
        if done is None or done.returncode != 0:
            raise


def _make(path):
    try:
        path.mkdir()
    except PermissionError:
        if not _as_root("mkdir", str(path)):
            raise


class MemoryLimit:
    """A group with a limit in bytes, for the length of a `with` block. Raises LimitUnavailable where none is permitted."""

    def __init__(self, limit_bytes):
        self.limit_bytes = limit_bytes
        self.group = None
        self.version = None

    def __enter__(self):
        reasons = []
        for attempt in (self._enter_version_1, self._enter_version_2):
            try:
                attempt()
                return self
            except (OSError, LimitUnavailable) as error:
                reasons.append(str(error))
                self._remove()
        raise LimitUnavailable("no control group with a memory limit can be made: " + "; ".join(reasons))

    def __exit__(self, *_):
        self._remove()

    def _enter_version_1(self):
        mount, own = _mount_point("cgroup", "memory"), _own_group("memory")
        if mount is None or own is None:
            raise LimitUnavailable("version 1 has no memory controller here")
        # In a container the group's path may be the host's; then the mount itself is the group.
        parent = mount / own.lstrip("/")
        self.group = (parent if parent.is_dir() else mount) / f"tiermap-{os.getpid()}"
        self.version = 1
        _make(self.group)
        _write(self.group / "memory.limit_in_bytes", str(self.limit_bytes))

    def _enter_version_2(self):
        mount, own = _mount_point("cgroup2", None), _own_group("")
        if mount is None or own is None:
            raise LimitUnavailable("version 2 is not mounted")
        if "memory" not in (mount / "cgroup.controllers").read_text().split():
            raise LimitUnavailable("version 2 has no memory controller here")
        # A group with processes in it cannot hand the controller down: go up until one can.
        parent = mount / own.lstrip("/")
        candidates = [group for group in (parent, *parent.parents) if group == mount or mount in group.parents]
        for candidate in candidates:
            try:
                handed_down = (candidate / "cgroup.subtree_control").read_text().split()
                if "memory" not in handed_down:
                    _write(candidate / "cgroup.subtree_control", "+memory")
                self.group = candidate / f"tiermap-{os.getpid()}"
                self.version = 2
                _make(self.group)
                _write(self.group / "memory.max", str(self.limit_bytes))
                swap = self.group / "memory.swap.max"
                if swap.exists():
                    _write(swap, "0")
                return
            except OSError:
                self._remove()
        raise LimitUnavailable("no group of version 2 may be made (needs root, sudo, or a delegated group)")

    def _remove(self):
        """Removes the group. Its processes have ended; the kernel may need a moment to notice."""
        if self.group is None:
            return
        for _ in range(100):
            try:
                self.group.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                if _as_root("rmdir", str(self.group)):
                    break
                time.sleep(0.05)
        self.group = None

    def start(self, command, **arguments):
        """Starts a command inside the group: it waits for a line until it has been moved, then becomes the program."""
        process = subprocess.Popen(["/bin/sh", "-c", 'read go && exec "$@" </dev/null', "sh", *map(str, command)],
                                   stdin=subprocess.PIPE, start_new_session=True, **arguments)
        try:
            _write(self.group / "cgroup.procs", str(process.pid))
            process.stdin.write(b"go\n")
        except OSError:
            process.kill()
            process.wait()
            raise
        finally:
            process.stdin.close()
        return process

    def peak_bytes(self):
        """The most memory that the group had, page cache included; None where the kernel does not tell."""
        name = "memory.max_usage_in_bytes" if self.version == 1 else "memory.peak"
        try:
            return int((self.group / name).read_text())
        except (OSError, ValueError):
            return None


def limit_reason():
    """None if limits work here, else why not."""
    try:
        with MemoryLimit(1 << 30) as limit:
            process = limit.start(["/bin/true"])
            if process.wait() != 0:
                return "a program could not be started inside a control group"
        return None
    except (OSError, LimitUnavailable) as error:
        return str(error)
