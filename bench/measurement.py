"""Running one program once, fairly: page cache dropped before, memory limited, its JSON read, everything given back."""
import contextlib
import json
import mmap
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from memory_limit import MemoryLimit

MADV_POPULATE_WRITE = 23  # Since Linux 5.14; Python 3.11 has no name for it.
MIB = 1 << 20
GIB = 1 << 30


def format_bytes(count):
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", 1 << 10)):
        if count >= size:
            number = count / size
            return f"{number:.0f} {unit}" if number >= 999.5 else f"{number:.3g} {unit}"
    return f"{count} B"


def option_bytes(count):
    """A size as the programs take it."""
    return f"{count // MIB}MiB" if count % MIB == 0 else f"{count // 1024}KiB"


class Interrupted(BaseException):
    """A signal asked to end: unwinds through every `with`, so that disk and control groups are given back."""


def unwind_on_signals():
    def handler(number, _):
        raise Interrupted(signal.Signals(number).name)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


@contextlib.contextmanager
def scratch_folder(parent, needed_bytes):
    """A folder on a disk with room, removed with all it holds whatever happens."""
    parent = pathlib.Path(parent)
    parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(parent).free
    if free < needed_bytes:
        sys.exit(f"{parent} has {format_bytes(free)} free, {format_bytes(needed_bytes)} are needed: "
                 "choose another folder with --scratch")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="scratch-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def drop_file_cache(*paths):
    """Writes out and forgets what the kernel holds of the files, and of those in the folders."""
    for path in paths:
        for file in ([path] if pathlib.Path(path).is_file() else pathlib.Path(path).rglob("*")):
            if not pathlib.Path(file).is_file():
                continue
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def drop_page_cache(*paths):
    """Writes out and forgets what the kernel holds of the files; as root, of everything."""
    drop_file_cache(*paths)
    if os.geteuid() == 0 and os.environ.get("TIERMAP_BENCH_DROP_CACHES", "1") == "1":
        try:
            os.sync()
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("1\n")
        except OSError:
            pass


def memory_bytes(name):
    """A line of /proc/meminfo."""
    return next(int(line.split()[1]) * 1024 for line in pathlib.Path("/proc/meminfo").read_text().splitlines()
                if line.startswith(name))


def touch_memory(count):
    """Takes so many bytes of memory and gives them back. The host of a virtual machine may have taken back what is
    free, and lends it again at 2 s a GiB: to whoever touches it first, which page cache that is used again never does."""
    room = max(mmap.PAGESIZE, min(count, memory_bytes("MemAvailable") // 2))
    with mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE) as memory, contextlib.suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory.madvise(MADV_POPULATE_WRITE)


class ProgressLine:
    """One line on a terminal that says what runs and for how long; one line a run elsewhere, unless it is to be
    quiet."""

    def __init__(self, text, quiet=False):
        self.text = text
        self.started = time.monotonic()
        self.terminal = sys.stderr.isatty()
        if not self.terminal and not quiet:
            print(f"  {text} ...", file=sys.stderr, flush=True)

    def tick(self):
        if self.terminal:
            seconds = time.monotonic() - self.started
            # Longer than the terminal is wide it could not be cleared.
            line = f"{self.text} ... {seconds:.0f} s"[:shutil.get_terminal_size().columns - 1]
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)

    def close(self):
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def end_group(process):
    """Ends a program that we started, and whatever it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
            return


def run_json(command, limit_bytes=None, drop=(), environment=None, timeout=600, label=None, cwd=None, quiet=False):
    """Runs a program that ends with a JSON object on standard output; returns the object, with "failed" set to a reason
    when it did not end well, "wall_seconds" always, and "group_peak_bytes" under a limit."""
    drop_page_cache(*drop)
    if limit_bytes:
        touch_memory(limit_bytes)
    command = [str(part) for part in command]
    progress = ProgressLine(label or " ".join(command), quiet)
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(tempfile.TemporaryFile("w+"))
        errors = stack.enter_context(tempfile.TemporaryFile("w+"))
        streams = {"stdout": output, "stderr": errors, "env": {**os.environ, **(environment or {})}, "cwd": cwd}
        limit = stack.enter_context(MemoryLimit(limit_bytes)) if limit_bytes else None
        started = time.monotonic()
        process = limit.start(command, **streams) if limit else subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True, **streams)
        reason = None
        try:
            while process.poll() is None:
                if time.monotonic() - started > timeout:
                    reason = f"stopped after {timeout:.0f} s"
                    break
                progress.tick()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.05)
        finally:
            if process.poll() is None:
                end_group(process)
            progress.close()
        wall = time.monotonic() - started
        output.seek(0)
        errors.seek(0)
        text, said = output.read(), errors.read().strip().splitlines()
        result = {}
        try:
            lines = text.strip()
            result = json.loads(lines[lines.index("{"):]) if "{" in lines else {}
        except ValueError:
            reason = reason or "its output is not JSON"
        if reason is None and process.returncode != 0:
            reason = f"exit code {process.returncode}: {said[-1] if said else 'no message'}"
        elif reason is None and not result:
            reason = "no JSON object in its output"
        result["command"] = command
        result["wall_seconds"] = wall
        if limit:
            result["limit_bytes"] = limit_bytes
            result["group_peak_bytes"] = limit.peak_bytes()
        if reason:
            result["failed"] = reason
            if not quiet:
                print(f"  {label or command[0]}: {reason}", file=sys.stderr)
        return result


def summary(values):
    """Median, least and greatest of several runs."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "runs": len(values)}


def interleaved(cases, repetitions):
    """Runs {name: function} in turn, `repetitions` times around, so that a change of the machine hits all alike. A case
    that failed is not run again. Returns {name: [results]}."""
    results = {name: [] for name in cases}
    for _ in range(repetitions):
        for name, function in cases.items():
            if not any("failed" in result for result in results[name]):
                results[name].append(function())
    return results


def remove(path):
    """Removes a file, or a folder with all it holds."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def machine(disk="."):
    """What a reader has to know about this machine and the disk that holds `disk`."""
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), os.uname().machine)
    about = pathlib.Path("/etc/os-release").read_text().splitlines()
    release = dict(line.split("=", 1) for line in about if "=" in line)
    return {"processor": model, "cores": os.cpu_count(), "memory_bytes": memory_bytes("MemTotal"),
            "kernel": os.uname().release, "system": release.get("PRETTY_NAME", "").strip('"'),
            "read_ahead_kib": read_ahead_kib(disk), "date": time.strftime("%Y-%m-%d", time.gmtime())}


def block_device_queue(path):
    """The queue folder in /sys of the disk that holds a path; None where there is none (a network file system)."""
    device = os.stat(path).st_dev
    node = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not node.exists():
        return None
    node = node.resolve()
    return next((folder / "queue" for folder in (node, node.parent) if (folder / "queue").is_dir()), None)


def read_ahead_kib(path):
    queue = block_device_queue(path)
    return int((queue / "read_ahead_kb").read_text()) if queue else None
