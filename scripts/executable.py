#!/usr/bin/env python3
"""Reads cargo's JSON messages and prints the path of the program of the target that is named."""
import json
import sys


def main():
    """The last program with that name; exit 1 if there is none."""
    found = None
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == sys.argv[1]:
            found = message["executable"]
    if not found:
        sys.exit(f"executable.py: cargo built no program named {sys.argv[1]}")
    print(found)


if __name__ == "__main__":
    main()
