#!/usr/bin/env python3
"""Adds up what test logs say: cargo, pytest, and lines "N passed, N failed[, N skipped]".

    tally.py LOG…

A passing Rust test that could not run says "skipped: REASON" on a line; it counts as skipped and
not as passed. Prints the reasons and, last, "N passed, N failed, N skipped". Exit 1 if anything
failed or nothing passed. `tally.py --self-test` checks the counting itself.
"""
import collections
import re
import sys

CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
IGNORED = re.compile(r"^test (.*) \.\.\. ignored(?:, (.*))?$")
COUNTS = re.compile(r"\b(\d+) (passed|failed|skipped|errors?)\b")
REASON = re.compile(r"(?:^|[\s:])(?:skipped(?: on \w+)?:|SKIPPED|SKIP:?)\s+(.*)$")


class Tally:
    """What all logs together say."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.reasons = collections.Counter()

    def add(self, text):
        """Count one log."""
        is_cargo = any(CARGO.match(line) for line in text.splitlines())
        for line in text.splitlines():
            found = CARGO.match(line)
            ignored = IGNORED.match(line)
            reason = REASON.search(line)
            if found:
                passed, failed, unrun = map(int, found.groups())
                self.passed += passed
                self.failed += failed
                self.skipped += unrun
            elif ignored:
                self.reasons[f"{ignored[1]}: {ignored[2] or 'no reason given'}"] += 1
            elif reason:
                self.skip(reason[1], is_cargo, line)
            else:
                self.counts(line)

    def skip(self, reason, is_cargo, line):
        """A line that says why something did not run."""
        self.reasons[reason.strip()] += 1
        if line.startswith("SKIPPED ["):
            return  # pytest: its last line has the number
        self.skipped += 1
        self.passed -= 1 if is_cargo else 0

    def counts(self, line):
        """A line with numbers of its own: pytest's last one, or a script's."""
        if "passed" not in line and "failed" not in line:
            return
        for number, what in COUNTS.findall(line):
            if what == "passed":
                self.passed += int(number)
            elif what == "skipped":
                self.skipped += int(number)
            else:
                self.failed += int(number)

    def summary(self):
        """The last line."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def self_test():
    """Every kind of line, and the faults that must be seen."""
    cargo = (
        "test a ... ok\nskipped: needs a GPU\n"
        "test b ... ignored, slow\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n"
    )
    cases = [
        (cargo, "2 passed, 0 failed, 2 skipped"),
        ("test result: FAILED. 3 passed; 2 failed; 0 ignored;\n", "3 passed, 2 failed, 0 skipped"),
        ("SKIPPED [1] test_x.py:3: no GPU\n== 5 passed, 1 skipped in 0.1s ==\n",
         "5 passed, 0 failed, 1 skipped"),
        ("== 1 failed, 4 passed, 1 error in 0.1s ==\n", "4 passed, 2 failed, 0 skipped"),
        ("cpp: headers: 24 passed, 0 failed\ncpp: skipped: pkg-config (not installed)\n",
         "24 passed, 0 failed, 1 skipped"),
        ("nothing to see\n", "0 passed, 0 failed, 0 skipped"),
    ]
    for text, wanted in cases:
        tally = Tally()
        tally.add(text)
        if tally.summary() != wanted:
            sys.exit(f"tally.py: {text!r} counts as {tally.summary()}, not {wanted}")


def main():
    """Add the logs up and say the sum."""
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    tally = Tally()
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8", errors="replace") as log:
            tally.add(log.read())
    for reason, count in sorted(tally.reasons.items()):
        print(f"  skipped: {reason}" + (f" ({count} times)" if count > 1 else ""))
    print(tally.summary())
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
