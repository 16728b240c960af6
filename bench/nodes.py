"""Nodes on one machine: network namespaces, each with a virtual cable to a switch, so that every byte from one to another
crosses a cable and is counted there, with all that TCP and IP put around it. Needs root."""
import os
import pathlib
import shutil
import subprocess
import time

SWITCH = "switch"
# As the kernel names a namespace in /run/netns.
PREFIX = "tiermap-bench"


def reason_without_nodes():
    """Why there can be no nodes here, None if they can be made."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    return None if shutil.which("ip") else "ip is not installed: package iproute2"


class Nodes:
    """So many nodes, for as long as it is entered. Node k has address 10.78.0.(k + 1)."""

    def __init__(self, count):
        self.count = count
        self.name = f"{PREFIX}-{os.getpid()}"

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def place(self, node):
        return f"{self.name}-{node}"

    @staticmethod
    def address(node):
        return f"10.78.0.{node + 1}"

    def command(self, node, words):
        """The same command on that node."""
        return ["ip", "netns", "exec", self.place(node), *map(str, words)]

    def make(self):
        ip("netns", "add", self.place(SWITCH))
        ip("-n", self.place(SWITCH), "link", "add", "bridge", "type", "bridge")
        ip("-n", self.place(SWITCH), "link", "set", "bridge", "up")
        for node in range(self.count):
            ip("netns", "add", self.place(node))
            ip("-n", self.place(node), "link", "add", "cable", "type", "veth", "peer", "name", f"port{node}", "netns",
               self.place(SWITCH))
            ip("-n", self.place(SWITCH), "link", "set", f"port{node}", "master", "bridge", "up")
            ip("-n", self.place(node), "address", "add", f"{self.address(node)}/24", "dev", "cable")
            for device in ("lo", "cable"):
                ip("-n", self.place(node), "link", "set", device, "up")
        # UCX takes no device that is not up yet.
        for node in range(self.count):
            while self.of_cable(node, "operstate") != "up":
                time.sleep(0.02)

    def remove(self):
        for node in (*range(self.count), SWITCH):
            if pathlib.Path("/run/netns", self.place(node)).exists():
                ip("netns", "delete", self.place(node))

    def of_cable(self, node, what):
        """What the kernel says of a node's end of its cable."""
        return subprocess.run(self.command(node, ["cat", f"/sys/class/net/cable/{what}"]), check=True,
                              stdout=subprocess.PIPE, text=True).stdout.strip()

    def sent_bytes(self):
        """By all nodes to others, since they were made."""
        return sum(int(self.of_cable(node, "statistics/tx_bytes")) for node in range(self.count))


def ip(*words):
    subprocess.run(["ip", *words], check=True, stdout=subprocess.DEVNULL)
