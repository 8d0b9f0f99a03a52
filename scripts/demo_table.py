#!/usr/bin/env python3
"""Prints the summary table of the demo from the JSON of `cenote replay`."""
import json
import sys


def size(count):
    """Bytes as a person says them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return None


def calls(entry, number):
    """Driver calls of one pass, all kinds together."""
    passes = entry.get("passes", [])
    if len(passes) <= number:
        return "-"
    return str(sum(v for v in passes[number]["driver_calls"].values() if isinstance(v, int)))


def main():
    """One line a trace."""
    with open(sys.argv[1], encoding="utf-8") as file:
        entries = json.load(file)["files"]
    head = ("trace", "peak live", "peak held", "ratio", "ns/op", "p99", "calls 1st", "calls 2nd")
    rows = [head]
    for entry in entries:
        rows.append((
            entry["name"].rsplit("/", 1)[-1],
            size(entry["peak_live_bytes"]),
            size(entry["peak_held_bytes"]),
            f"{entry['ratio']:.4f}",
            f"{entry['ns_per_op_median']:.0f}",
            f"{entry['ns_per_op_p99']:.0f}",
            calls(entry, 0),
            calls(entry, 1),
        ))
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  ".join(cells))
    failed = [entry["name"] for entry in entries if entry.get("failed")]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
