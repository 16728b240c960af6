"""Runs the cases of a scenario in turn, and keeps each run as soon as it is there."""
import contextlib
import copy
import pathlib
import subprocess
import sys
import time

import measurement
from cases import Bench, DataProblem, OutOfTime
from peers import with_peers
from results import better_of, unit_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Another advice for mmap need not be measured to its end once it takes so many times longer than the best one.
HOPELESS = {"quick": 2, "aims": 2, "short": 4, "full": 4}
LEAST_TIMEOUT = {"quick": 2, "aims": 5, "short": 10, "full": 20}
OUT_OF_TIME = "the time of this scenario is up"
# An advice that was so many times worse than the best one is not repeated in a brief one.
BEATEN = 1.5
# A machine on which more than this share of a processor was at work before the run is not quiet.
QUIET_LOAD = 0.25


def commit_of(root):
    """The commit that is measured, with "-changed" if files differ from it; None outside of git."""
    def git(*words):
        return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    head = git("rev-parse", "--short=12", "HEAD")
    if head.returncode != 0:
        return None
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":!docs", ":!bench/results").stdout.strip()
    return head.stdout.strip() + ("-changed" if changed else "")


def busy_share(seconds=0.1):
    """How many processors' worth of work others do at this moment. The load average would count our own last run."""
    def ticks():
        words = [int(word) for word in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        return sum(words) - words[3] - words[4]
    before, started = ticks(), time.monotonic()
    time.sleep(seconds)
    return (ticks() - before) / 100 / (time.monotonic() - started)


def missing_options(bench, scenario, needed=None):
    """Why a scenario cannot run: a program that is not built, or an option that it does not have."""
    for name in scenario.programs:
        if not bench.program(name).exists():
            return f"{name} is not built"
    for name, option in needed if needed is not None else scenario.needs:
        said = subprocess.run([bench.program(name), "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              check=False, timeout=60).stdout
        if option not in said.replace(",", " ").split():
            return f"{name} has no option {option}"
    return None


class Progress:
    """What runs, how far it is, and how long it will take: one line on a terminal, a line a scenario elsewhere."""

    def __init__(self, names, seconds):
        self.names = names
        self.seconds = seconds
        self.started = time.monotonic()
        self.place = 0
        self.scenario_started = self.started
        self.name = ""
        self.terminal = sys.stderr.isatty()

    def say(self, text):
        print(("\r\033[K" if self.terminal else "") + text, file=sys.stderr, flush=True)

    def begin(self, name):
        self.name = name
        self.place = self.names.index(name) + 1
        self.scenario_started = time.monotonic()

    def label(self, done, whole, case):
        """The text before a run's own seconds."""
        gone = time.monotonic() - self.scenario_started
        left = f", some {gone / done * (whole - done):.0f} s left" if done else ""
        rest = ""
        if self.seconds:
            rest = f"; all: at most {max(self.seconds - (time.monotonic() - self.started), 0):.0f} s left"
        at = "" if case.x is None else f" at {case.x}"
        return f"[{self.place}/{len(self.names)}] {self.name}, {done} of {whole} runs{left}{rest}: {case.series}{at}"

    def end(self, name, text):
        self.say(f"[{self.place}/{len(self.names)}] {name}: {text}, {time.monotonic() - self.scenario_started:.0f} s")


def telling_first(cases):
    """The cases in an order of which also the beginning tells something: mmap's further ways come last."""
    seen, later = set(), []
    for case in cases:
        place = (case.panel, case.x)
        if case.system == "mmap" and place in seen:
            later.append(case)
        else:
            if case.system == "mmap":
                seen.add(place)
            yield case
    yield from later


class Clock:
    """How long each scenario may take: its share of the time that is left, by weights. Without a limit all the time
    that it needs."""

    def __init__(self, scenarios, seconds):
        self.scenarios = list(scenarios)
        self.ends = time.monotonic() + seconds if seconds else None

    def left(self):
        return max(self.ends - time.monotonic(), 0)

    def data_deadline(self):
        """Until when data has to be made. It is for several scenarios, so it may take more than one of them has; but no
        more than a quarter of what all have."""
        return time.monotonic() + self.left() / 4 if self.ends else None

    def deadline(self, scenario):
        """Until when the runs of this scenario, whose data is made, have to end."""
        if self.ends is None:
            return None
        place = self.scenarios.index(scenario)
        return time.monotonic() + self.left() * scenario.weight / sum(other.weight for other in self.scenarios[place:])


class ScenarioRun:
    """One scenario from its data to its last line."""

    def __init__(self, scenario, bench: Bench, store, progress, peers=(), commit=None, clock=None, keep=()):
        self.scenario = scenario
        self.bench = bench
        self.store = store
        self.progress = progress
        self.peers = peers
        self.commit = commit
        self.clock = clock or Clock([scenario], None)
        self.deadline = None
        # Lines of an earlier, interrupted measurement, which is carried on.
        self.kept = list(keep)
        self.done = {}
        self.fresh = False
        self.failed = set()
        self.cut = 0

    def run(self):
        """Returns a problem, or None. What is measured is kept whatever happens later."""
        bench = self.bench
        bench.skipped, bench.setup = [], []
        reason = missing_options(bench, self.scenario)
        if reason:
            self.without_runs(f"skipped: {reason}", (self.scenario.name, reason))
            return None
        with contextlib.ExitStack() as devices:
            bench.enter = devices.enter_context
            bench.deadline = self.clock.data_deadline()
            try:
                cases = with_peers(self.scenario.cases(bench), self.peers, bench.skip)
            except OutOfTime:
                reason = "no time was left to make its data"
                self.without_runs(reason, (self.scenario.name, reason))
                return None
            except DataProblem as problem:
                reason = f"no data: {problem}"
                self.without_runs(reason, (self.scenario.name, reason))
                return str(problem)
            self.deadline = self.clock.deadline(self.scenario)
            cases = list(telling_first(self.runnable(cases)))
            if not cases:
                self.without_runs("skipped: " + "; ".join(why for _, why in bench.skipped), *bench.skipped)
                return None
            self.begin(cases)
            runs = self.rounds(cases)
            self.clear()
        text = f"{runs} runs of {len(cases)} cases" + (f", {len(self.failed)} failed" if self.failed else "")
        text += f", cut in round {self.cut}: its time was up" if self.cut else ""
        self.progress.end(self.scenario.name, text)
        return None

    def without_runs(self, text, *skipped):
        """Nothing can be run. What was measured before, perhaps by another build or on another machine, stays."""
        if not any(line["kind"] == "run" for line in self.store.read(self.scenario.name)):
            for what, reason in skipped:
                self.write({"kind": "skipped", "what": what, "reason": reason})
        self.progress.end(self.scenario.name, text)

    def begin(self, cases):
        """The lines before the first new run, all at once: nothing of what is carried on is lost on the way."""
        bench = self.bench
        about = [{"kind": "about", "detail": bench.detail, "repetitions": bench.repetitions, "cases": len(cases),
                  "data_bytes": bench.data_bytes, "setup": [self.plain(command) for command in bench.setup]}]
        about += [{"kind": "skipped", "what": what, "reason": reason} for what, reason in bench.skipped]
        self.store.rewrite(self.scenario.name, [{"scenario": self.scenario.name, **line} for line in about]
                           + self.carry_on(cases))
        self.fresh = True

    def runnable(self, cases):
        """The cases that can be held to a limit, by programs that know the system."""
        if not self.bench.limit_problem:
            return cases
        found = []
        for case in cases:
            if case.limit and case.system not in ("tiermap", "direct"):
                self.bench.skip(case.series, self.bench.limit_problem)
            else:
                found.append(case)
        return found

    def rounds(self, cases):
        """Every case once, then all again, so that a change of the machine hits all alike."""
        runs, whole = 0, len(cases) * self.bench.repetitions
        for repetition in range(1, self.bench.repetitions + 1):
            for place, case in enumerate(cases):
                if len(self.done.get(place, ())) >= repetition or place in self.failed or self.is_beaten(place, cases):
                    continue
                label = self.progress.label((repetition - 1) * len(cases) + place, whole, case)
                if self.out_of_time(place) or not self.one(place, case, repetition, label, cases):
                    left = len(set(range(len(cases))) - self.failed - set(self.done))
                    self.write({"kind": "cut", "repetition": repetition, "runs": runs, "whole": whole,
                                "cases_without_a_run": left})
                    self.cut = repetition
                    return runs
                runs += 1
        return runs

    def is_beaten(self, place, cases):
        """Whether another advice for mmap was so much better in the first round that this one need not be repeated."""
        case, mine = cases[place], self.done.get(place)
        if not self.bench.brief or case.system != "mmap" or not mine:
            return False
        values = [done[0]["value"] for other, done in self.done.items() if cases[other].system == "mmap"
                  and (cases[other].panel, cases[other].x) == (case.panel, case.x)]
        if better_of(case.metric) == "less":
            return mine[0]["value"] > BEATEN * min(values)
        return mine[0]["value"] * BEATEN < max(values)

    def out_of_time(self, place):
        """Whether a run would not end in time, as far as one can tell: it takes what it took before, or what others
        do."""
        if not self.deadline:
            return False
        took = [run["wall_seconds"] for done in self.done.values() for run in done]
        mine = [run["wall_seconds"] for run in self.done.get(place, ())]
        expected = max(mine) if mine else sum(took) / len(took) if took else 0
        return time.monotonic() + expected > self.deadline

    def carry_on(self, cases):
        """Takes over the runs that an interrupted measurement left, and drops what this one does not have, or would run
        in another way. Returns their lines."""
        lines = []
        places = {(case.panel, case.series, repr(case.x)): place for place, case in enumerate(cases)}
        for line in (line for line in self.kept if line["kind"] == "run" and not line["failed"]):
            place = places.get((line["panel"], line["series"], repr(line["x"])))
            if place is not None and line["detail"] == self.bench.detail and self.is_run_of(line, cases[place]):
                self.done.setdefault(place, []).append(line)
                lines.append(line)
        return lines

    def is_run_of(self, line, case):
        """Whether a case would be run as this line was, by whatever version."""
        limit = None if self.bench.limit_problem else case.limit
        return (line["command"], line["environment"], line["limit_bytes"]) == (
            self.plain([str(word) for word in case.command]), self.plain(case.environment), limit)

    def time_limit(self, place, case, cases):
        """How long this run may take, and in words why no longer."""
        limit, why = self.bench.run_timeout, "the most for one run"
        if case.system == "mmap":
            rivals = [run["wall_seconds"] for other, done in self.done.items() for run in done
                      if cases[other].system == "mmap" and other != place
                      and (cases[other].panel, cases[other].x) == (case.panel, case.x)]
            if rivals and HOPELESS[self.bench.detail] * min(rivals) < limit:
                limit = max(HOPELESS[self.bench.detail] * min(rivals), LEAST_TIMEOUT[self.bench.detail])
                why = f"the best mmap here took {min(rivals):.1f} s"
        if self.deadline and self.deadline - time.monotonic() < limit:
            limit, why = max(self.deadline - time.monotonic(), 1), OUT_OF_TIME
        return limit, why

    def one(self, place, case, repetition, label, cases):
        """One run and its line. False if the scenario's time ended it: then it has no line, and there is no time
        left."""
        busy = busy_share()
        timeout, why = self.time_limit(place, case, cases)
        # Scratch files go where the data is; a program that was killed could not remove its own.
        environment = {"TMPDIR": str(self.bench.scratch), **case.environment}
        report = measurement.run_json(case.command, limit_bytes=None if self.bench.limit_problem else case.limit,
                                      drop=case.drop, environment=environment, timeout=timeout, label=label,
                                      cwd=self.bench.scratch, quiet=True)
        self.clear_leftovers()
        failed = report.pop("failed", None)
        if failed and failed.startswith("stopped after"):
            if why == OUT_OF_TIME:
                return False
            failed += f": {why}"
        if failed is None and report.get("verified", True) is False:
            failed = "wrong result"
        value = None if failed else measured(report, case)
        if failed is None and value is None:
            failed = f"its report has no {case.metric}"
        report.pop("jobs", None)
        line = {"kind": "run", "panel": case.panel, "series": case.series, "system": case.system, "x": case.x,
                "metric": case.metric, "unit": unit_of(case.metric), "better": better_of(case.metric), "value": value,
                "failed": failed, "repetition": repetition, "detail": self.bench.detail,
                "command": self.plain(report.pop("command")), "environment": self.plain(case.environment),
                "limit_bytes": report.pop("limit_bytes", None), "data_bytes": case.data_bytes,
                "wall_seconds": report.pop("wall_seconds"), "group_peak_bytes": report.pop("group_peak_bytes", None),
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": self.commit,
                "busy_processors": round(busy, 2), "quiet": busy <= QUIET_LOAD, "machine": measurement.machine(
                    self.bench.scratch), "result": self.plain(report)}
        if failed:
            self.failed.add(place)
            self.progress.say(f"  {case.series}{'' if case.x is None else f' at {case.x}'}: {failed}")
        else:
            self.done.setdefault(place, []).append(line)
        self.write(line)
        return True

    def plain(self, value):
        """The same without the folders of this machine: programs by their names, data below SCRATCH, files of the
        project by where they are in it."""
        if isinstance(value, dict):
            return {key: self.plain(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(part) for part in value]
        if isinstance(value, (str, pathlib.PurePath)):
            text = str(value).replace(str(self.bench.scratch), "SCRATCH")
            return text.replace(str(self.bench.binaries) + "/", "").replace(f"{ROOT}/", "")
        return copy.copy(value)

    def clear_leftovers(self):
        """Removes what a run left in the scratch folder, but for data that is shared by many."""
        for left in self.bench.scratch.iterdir():
            if not left.name.startswith(("shared-", "loop")):
                measurement.remove(left)

    def clear(self):
        self.clear_leftovers()

    def write(self, line):
        """Keeps a line. What was there of this scenario goes with the first one that is new."""
        if not self.fresh:
            self.store.rewrite(self.scenario.name, [])
            self.fresh = True
        self.store.append(self.scenario.name, {"scenario": self.scenario.name, **line})


def measured(report, case):
    """What a run says of the case's metric; a rate is the operations by the seconds where it says none."""
    if case.value is not None:
        try:
            return case.value(report)
        except (KeyError, IndexError, TypeError):
            return None
    found = report.get(case.metric)
    if found is None and case.metric.endswith("_per_second") and report.get("seconds") and report.get("operations"):
        found = report["operations"] / report["seconds"]
    return found
