"""Memory servers around one measured run: on loopback, or one on each node."""
import contextlib
import os
import pathlib
import secrets
import subprocess
import tempfile


def processor_seconds(process):
    """Of all threads of a process that runs."""
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
        user, system = stat.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class Servers:
    """So many, each with that much DRAM, for as long as it is entered."""

    def __init__(self, program, count, memory_bytes, nodes=None):
        self.program = program
        self.count = count
        self.memory_bytes = memory_bytes
        self.nodes = nodes
        self.processes = []
        self.addresses = []
        self.secret = secrets.token_hex(16)
        self.leave = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as starting:
            folder = pathlib.Path(starting.enter_context(tempfile.TemporaryDirectory()))
            for place in range(self.count):
                self.processes.append(starting.enter_context(ended(subprocess.Popen(
                    self.command(place, folder), stdout=subprocess.PIPE, text=True))))
            self.addresses = [address_of(process) for process in self.processes]
            self.leave = starting.pop_all()
        return self

    def __exit__(self, *_):
        self.leave.close()

    def command(self, place, folder):
        if self.nodes is None:
            return [self.program, "serve", "--listen", "127.0.0.1:0", "--memory", str(self.memory_bytes)]
        # Without users a server listens on loopback alone.
        file = folder / f"{place}.yaml"
        file.write_text(f"listen: {self.nodes.address(place)}:7070\nmemory: {self.memory_bytes}\n"
                        f"users: [{{name: bench, secret: {self.secret}}}]\n")
        return self.nodes.command(place, [self.program, "serve", "--config", file])

    def environment(self):
        """What a rank or a client has to know of them."""
        if not self.processes:
            return {}
        users = {"TIERMAP_USER": "bench", "TIERMAP_SECRET": self.secret} if self.nodes else {}
        return {"TIERMAP_SERVERS": ",".join(self.addresses), **users}

    def cpu_seconds(self):
        return sum(processor_seconds(process) for process in self.processes)


@contextlib.contextmanager
def ended(process):
    """The process, which is told to end, and waited for, whatever happens."""
    with process:
        try:
            yield process
        finally:
            process.terminate()


def address_of(process):
    """Of its first line: "listening on ADDRESS, ..."."""
    words = process.stdout.readline().split()
    if len(words) < 3:
        raise SystemExit("a memory server did not start: it said why above")
    return words[2].rstrip(",")
