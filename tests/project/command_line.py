#!/usr/bin/env python3
"""`make help` names every target in a line each, and the version is written in one place."""
import pathlib
import re
import subprocess
import sys


def main(root):
    good = True
    makefile = (root / "Makefile").read_text()
    phony = re.search(r"\.PHONY:((?:.*\\\n)*.*)", makefile).group(1).replace("\\", " ").split()
    targets = re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE)
    shown = subprocess.run(["make", "--no-print-directory", "-C", root, "help"], capture_output=True, text=True,
                           check=True).stdout
    listed = re.findall(r"^  make (\S+) +\S", shown, re.MULTILINE)
    for name, found in ((".PHONY", phony), ("make help", listed)):
        if sorted(found) != sorted(targets):
            print(f"{name} names {sorted(found)}, the Makefile has {sorted(targets)}")
            good = False
    version = (root / "VERSION").read_text().strip()
    for path in [root / "Makefile", root / "CMakeLists.txt", *(root / "cmake").iterdir(),
                 *(root / "src").rglob("*.cpp"), *(root / "tools").rglob("*.cpp")]:
        if re.search(rf"\b{re.escape(version)}\b", path.read_text()):
            print(f"{path}: repeats the version {version}: take it from VERSION")
            good = False
    if f"## {version}" not in (root / "CHANGELOG.md").read_text():
        print(f"CHANGELOG.md has no section for {version}")
        good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
