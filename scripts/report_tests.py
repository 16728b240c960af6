#!/usr/bin/env python3
"""Sums up JUnit reports, CTest's and pytest's: report_tests.py NAME=FILE...

Prints a line for each report, every skipped test with its reason, every test that passed only when it was tried again, and
the total as "N passed, N failed, N skipped". What was tried again is in FILE with -again before its .xml.

report_tests.py --may-try-again FILE: ends with 0 if the failures in it can be the machine's: a few tests that did not get their
turn in time beside others. What a sanitizer has found is found, however seldom it shows; and so is what a random test has, which
says its seed: with another one it would pass.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


def skip_reason(output):
    """What the test itself said before it was skipped: the line that GTEST_SKIP() or a script printed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for index, line in enumerate(lines):
        if re.search(r": Skipped$", line) and index + 1 < len(lines):
            return lines[index + 1]
        if line.lower().startswith("skipped: "):
            return line[len("skipped: "):]
    return "no reason given"


def has_failed(case):
    return case.find("failure") is not None or case.find("error") is not None


def name_of(case):
    return (case.get("classname"), case.get("name"))


def read_report(path):
    """Counts of (passed, failed), the list of (name, reason) that were skipped, and the names that passed at a second try."""
    path = pathlib.Path(path)
    again_path = path.with_name(f"{path.stem}-again.xml")
    again = {}
    if again_path.exists():
        again = {name_of(case): case for case in ElementTree.parse(again_path).getroot().iter("testcase")}
    passed, failed, skipped, second_try = 0, 0, [], []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if has_failed(case) and name_of(case) in again:
            case = again[name_of(case)]
            if not has_failed(case):
                second_try.append(case.get("name"))
        if has_failed(case):
            failed += 1
        elif case.find("skipped") is not None:
            # pytest says the reason here, CTest a word that tells nothing.
            said = case.find("skipped").get("message", "") if case.get("classname", "").startswith("python.") else ""
            skipped.append((case.get("name"), said or skip_reason(case.findtext("system-out") or "")))
        else:
            passed += 1
    return passed, failed, skipped, second_try


def may_try_again(path):
    most = 5
    failed = [case for case in ElementTree.parse(path).getroot().iter("testcase") if has_failed(case)]
    finding = r"(ERROR: (Address|Leak)|WARNING: Thread)Sanitizer|: runtime error: "
    found = re.search(finding, pathlib.Path(path).read_text(errors="replace"))
    seeded = any(re.search(r"(?i)seed[ =:]+\d", "".join(case.itertext())) for case in failed)
    return 0 < len(failed) <= most and not found and not seeded


def main(arguments):
    if arguments[0] == "--may-try-again":
        return 0 if may_try_again(arguments[1]) else 1
    total_passed, total_failed, total_skipped = 0, 0, 0
    for argument in arguments:
        name, _, path = argument.partition("=")
        passed, failed, skipped, second_try = read_report(path)
        print(f"{name}: {passed} passed, {failed} failed, {len(skipped)} skipped")
        for test, reason in skipped:
            print(f"  skipped: {test}: {reason}")
        for test in second_try:
            print(f"  failed beside others, passed alone: {test}")
        total_passed += passed
        total_failed += failed
        total_skipped += len(skipped)
    print(f"{total_passed} passed, {total_failed} failed, {total_skipped} skipped")
    return 1 if total_failed or total_passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
