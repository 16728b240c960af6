#!/usr/bin/env python3
"""Follows a page of the documentation as a reader would.

follow.py PAGE BUILD CMAKE CXX_COMPILER [namespaces] [sqlite3] [twice]: installs the built library into an empty home, and goes through the blocks of the
page in order. A program is saved under the name that the text before it gives ("Save as `sum.cpp`:"), or, where the text
gives none, built and run at once; YAML is always saved. Shell blocks are run by bash in one session; `make install` is what was done already. A
block of text is what the program or the commands before it must have printed.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAVE_AS = re.compile(r"Save as `([\w.]+)`:\s*$")
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


class Reader:
    def __init__(self, home, build, cmake, compiler, components):
        self.work = home / "work"
        self.work.mkdir()
        self.compiler = compiler
        self.script = "set -e\n"
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("TIERMAP_")}
        self.environment |= {"HOME": str(home), "CXX": compiler}
        # The Python that follows the page, and has what the pages import.
        self.environment["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
        prefix = home / ".local"
        for component in components:
            subprocess.run([cmake, "--install", build, "--prefix", prefix, "--component", component],
                           check=True, stdout=subprocess.DEVNULL)
        # What a page runs, as it was built, and where the sources are.
        self.environment["PATH"] = f"{build}/bin" + os.pathsep + self.environment["PATH"]
        self.environment["TIERMAP"] = str(pathlib.Path(__file__).resolve().parents[2])
        self.library = next(prefix.rglob("tiermap.pc")).parent.parent
        self.environment |= {"PKG_CONFIG_PATH": str(self.library / "pkgconfig"), "LD_LIBRARY_PATH": str(self.library)}

    def run(self, command):
        result = subprocess.run(command, cwd=self.work, env=self.environment, capture_output=True, text=True,
                                timeout=240, check=False)
        if result.returncode != 0:
            raise SystemExit(f"failed ({result.returncode}): {command}\n{result.stdout}{result.stderr}")
        return result.stdout

    def program(self, source, name):
        """Saves a program; one without a name is built and run here."""
        (self.work / (name or "program.cpp")).write_text(source)
        if name is not None:
            return None
        flags = self.run(["pkg-config", "--cflags", "--libs", "tiermap"]).split()
        self.run([self.compiler, "-std=c++20", *WARNINGS, "program.cpp", "-o", "program", *flags])
        return self.run(["./program"])

    def shell(self, commands):
        """Runs commands after those that set up the session: exports and functions of earlier blocks."""
        if commands.startswith("make install"):
            return ""
        said = self.run(["bash", "-c", self.script + commands])
        self.script += "".join(line + "\n" for line in commands.splitlines()
                               if line.startswith("export ") or "() {" in line)
        return said


def follow(page, reader):
    text = page.read_text()
    said = None
    blocks = 0
    for block in BLOCK.finditer(text):
        language, content = block.groups()
        blocks += 1
        if language == "cpp":
            name = SAVE_AS.search(text[:block.start()])
            said = reader.program(content, name.group(1) if name else None)
        elif language == "yaml":
            (reader.work / SAVE_AS.search(text[:block.start()]).group(1)).write_text(content)
        elif language == "sh":
            said = reader.shell(content)
        elif language == "text":
            if said != content:
                raise SystemExit(f"{page}: block {blocks} should be\n{content}and is\n{said}")
        else:
            raise SystemExit(f"{page}: block {blocks} is {language}, which nobody knows how to follow")
    if blocks == 0:
        raise SystemExit(f"{page}: nothing to follow")
    print(f"{page.name}: {blocks} blocks followed")


def has_namespaces():
    """Whether this user can make network namespaces, which pages of several nodes do."""
    made = subprocess.run(["ip", "netns", "add", "tiermap-probe"], capture_output=True, check=False).returncode == 0
    return made and subprocess.run(["ip", "netns", "delete", "tiermap-probe"], check=False).returncode == 0


def main(page, build, cmake, compiler, *how):
    if "namespaces" in how and shutil.which("mpiexec.mpich") is None:
        print("mpich is not installed")
        sys.exit(77)
    if "sqlite3" in how and shutil.which("sqlite3") is None:
        print("sqlite3 is not installed")
        sys.exit(77)
    if "namespaces" in how and (shutil.which("ip") is None or not has_namespaces()):
        print("network namespaces cannot be made here: root and iproute2 are needed")
        sys.exit(77)
    page = pathlib.Path(page)
    components = ["Development", "Parquet"] if page.stem == "parquet" else ["Development"]
    with tempfile.TemporaryDirectory(prefix="tiermap-reader-", dir=pathlib.Path(build).resolve()) as home:
        reader = Reader(pathlib.Path(home), build, cmake, compiler, components)
        for _ in range(2 if "twice" in how else 1):
            follow(page, reader)


if __name__ == "__main__":
    main(*sys.argv[1:])
