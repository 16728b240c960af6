#!/usr/bin/env python3
"""Every option that a scenario of `make bench` gives to a program exists, where the program is built."""
import pathlib
import subprocess
import sys

ROOT, BUILD = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
sys.path.insert(0, str(ROOT / "bench"))
# Nothing is to be written into the source tree.
sys.dont_write_bytecode = True
from cases import Bench  # noqa: E402
from ranks_scenarios import RUN  # noqa: E402
from remote_scenarios import CLIENTS  # noqa: E402
from scenarios import SCENARIOS  # noqa: E402

STARTERS = (RUN, CLIENTS)


def options_of(program, known={}):
    """What a program's --help names."""
    if program not in known:
        said = subprocess.run([program, "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True,
                              timeout=60).stdout
        words = said.replace(",", " ").replace("{", " ").split()
        known[program] = {word for word in words if word.startswith("--")}
    return known[program]


def innermost(command):
    """Of what starts ranks or clients, the program that these are, and its options."""
    if len(command) > 1 and command[1] in STARTERS:
        place = max(place for place, word in enumerate(command) if str(word).startswith(str(BUILD)))
        return command[place:]
    return command


def main():
    complaints, checked, left_out = [], 0, []
    for detail in ("quick", "short", "full"):
        for scenario in SCENARIOS.values():
            bench = Bench(BUILD / "bin", "SCRATCH", detail, dry=True)
            missing = [name for name in scenario.programs if not bench.program(name).exists()]
            missing += [f"{name} {option}" for name, option in scenario.needs
                        if name not in missing and option not in options_of(bench.program(name))]
            if missing:
                left_out.append(f"{scenario.name} ({', '.join(missing)})")
                continue
            commands = [case.command for case in scenario.cases(bench)] + bench.setup
            for program, *words in map(innermost, commands):
                if not str(program).startswith(str(BUILD)):
                    continue
                checked += 1
                for word in words:
                    if str(word).startswith("--") and word not in options_of(program):
                        complaints.append(f"{scenario.name}: {program.name} has no option {word}")
    for complaint in sorted(set(complaints)):
        print(complaint)
    print(f"{checked} commands looked at; not there: {', '.join(dict.fromkeys(left_out)) or 'nothing'}")
    if not checked:
        print("skipped: no program is built")
        return 77
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
