#!/usr/bin/env python3
"""`make help` names every target in a line each, `make` and the scripts ask for presets, steps and folders that exist, and
the version is written in one place."""
import json
import pathlib
import re
import subprocess
import sys


def check_calls(root):
    """What the Makefile and the scripts call by name: scripts, presets, steps, groups of packages, folders of tests."""
    presets = json.loads((root / "CMakePresets.json").read_text())
    tests = (root / "scripts" / "test.sh").read_text()
    setup = (root / "scripts" / "setup.sh").read_text()
    known = {"build.sh": {preset["name"] for preset in presets["buildPresets"]},
             "test.sh": {"all", *re.findall(r"^step_(\w+)\(\)", tests, re.MULTILINE)},
             "setup.sh": set(re.findall(r"^ +(\w+)\) echo ", setup, re.MULTILINE))}
    calls = re.compile(r"^[^#\n]*?(?<![\w/])scripts/([\w.]+)((?: [a-z]+)*)", re.MULTILINE)
    seen = set()
    for path in (root / "Makefile", *sorted((root / "scripts").glob("*.sh"))):
        for script, words in calls.findall(path.read_text()):
            if not (root / "scripts" / script).exists():
                yield f"{path.name}: there is no scripts/{script}"
            # Of build.sh only the first word is a preset; targets follow.
            named = words.split()[:1] if script == "build.sh" else words.split()
            seen.add(script)
            for word in named:
                if word not in known.get(script, {word}):
                    yield f"{path.name}: scripts/{script} knows no {word}: {', '.join(sorted(known[script]))}"
    for script in known.keys() - seen:
        yield f"nothing calls scripts/{script}: the search for calls is wrong"
    steps = []
    for name in ("all_steps", "steps_of_their_own"):
        steps += re.search(rf"^readonly {name}=\((.*)\)", tests, re.MULTILINE).group(1).split()
    functions = known["test.sh"] - {"all"}
    if sorted(steps) != sorted(functions):
        yield f"test.sh: its steps are {sorted(steps)}, its functions are for {sorted(functions)}"
    for preset, folders in re.findall(r"^readonly (\w+)_tests=\((.*)\)", tests, re.MULTILINE):
        if preset not in known["build.sh"]:
            yield f"test.sh: {preset}_tests are for a preset that does not exist"
        for folder in folders.split():
            if not list((root / "tests" / folder).glob("*_test.cpp")):
                yield f"test.sh: {preset}_tests names tests/{folder}, which has no tests"


def check_patterns(root):
    """CTest ignores a pattern of more than nine groups, with a line that nobody reads, and runs all tests."""
    tests = (root / "scripts" / "test.sh").read_text()
    patterns = dict(re.findall(r"^readonly (\w+)='(.*)'$", tests, re.MULTILINE))
    together = [re.findall(r"\$(\w+)", added) for added in re.findall(r'excluded\+?="?([^"\n]+)"?$', tests, re.MULTILINE)]
    common, *others = together
    if len(others) != 2:
        yield f"test.sh: no patterns of two sanitizers were found, but {together}"
    for names in others:
        groups = sum(len(re.findall(r"(?<!\\)\(", patterns[name])) for name in common + names)
        if groups > 9:
            yield f"test.sh: {', '.join(common + names)} have {groups} groups together, and CTest takes nine"


def check_building(root):
    """What docs/building.md lists: options of CMake, presets, and groups of packages with what is in them."""
    page = (root / "docs" / "building.md").read_text()
    listed = [row.split("|")[1:3] for row in page.splitlines() if row.startswith("|")]
    first = {word for row in listed for word in re.findall(r"`(\w+)`", row[0])}
    options = set()
    for file in (root / "CMakeLists.txt", *(root / "cmake").glob("*.cmake")):
        options |= set(re.findall(r"^(?:option\(|set\((?=.* CACHE ))(TIERMAP_\w+)", file.read_text(), re.MULTILINE))
    presets = {preset["name"] for preset in json.loads((root / "CMakePresets.json").read_text())["buildPresets"]}
    for name in sorted((options | presets) - first):
        yield f"docs/building.md does not list {name}"
    setup = (root / "scripts" / "setup.sh").read_text().replace("\\\n", " ")
    packages = dict(re.findall(r"^ +(\w+)\) echo (.*?) ;;", setup, re.MULTILINE))
    said = {row[0].strip(): row[1] for row in listed}
    for group, names in packages.items():
        told = re.findall(r"[\w+.-]+", said.get(group, ""))
        if sorted(told) != sorted(names.split()):
            yield f"docs/building.md: of {group} it names {sorted(told)}, and scripts/setup.sh installs {sorted(names.split())}"


def main(root):
    good = True
    for complaint in (*check_calls(root), *check_patterns(root), *check_building(root)):
        print(complaint)
        good = False
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
