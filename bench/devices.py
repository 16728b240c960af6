"""A disk with the read-ahead that most disks have: a file system on a loop device over a file, for as long as a `with`
block. mmap's default depends on read-ahead more than on anything else, so both settings are measured."""
import contextlib
import os
import pathlib
import shutil
import subprocess


class DeviceUnavailable(Exception):
    """The text says why there is no such disk."""


def _run(*command):
    result = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            check=False)
    if result.returncode != 0:
        raise DeviceUnavailable(f"{command[0]}: {(result.stderr or result.stdout).strip().splitlines()[-1:]}")
    return result.stdout.strip()


@contextlib.contextmanager
def loop_disk(folder, size_bytes, read_ahead_kib):
    """Yields a folder on a loop device with that read-ahead. Raises DeviceUnavailable where it cannot be made."""
    if os.geteuid() != 0:
        raise DeviceUnavailable("a loop device needs root")
    for tool in ("losetup", "mkfs.ext4", "mount"):
        if not shutil.which(tool):
            raise DeviceUnavailable(f"{tool} is not installed")
    image, mounted = pathlib.Path(folder) / "loop.img", pathlib.Path(folder) / "loop"
    with contextlib.ExitStack() as undo:
        with open(image, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size_bytes)
        undo.callback(lambda: image.unlink(missing_ok=True))
        # Direct, so that the file below is not cached a second time.
        device = _run("losetup", "--find", "--show", "--direct-io=on", image)
        undo.callback(lambda: subprocess.run(["losetup", "-d", device], check=False))
        _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
        queue = pathlib.Path("/sys/block") / pathlib.Path(device).name / "queue/read_ahead_kb"
        try:
            queue.write_text(str(read_ahead_kib))
        except OSError as error:
            raise DeviceUnavailable(f"read-ahead of {device} cannot be set: {error}") from error
        mounted.mkdir()
        undo.callback(lambda: mounted.rmdir() if mounted.exists() else None)
        _run("mount", device, mounted)
        undo.callback(lambda: subprocess.run(["umount", str(mounted)], check=False))
        yield mounted
