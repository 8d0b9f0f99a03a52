"""Replay a list of operations through the Python binding and say what it cost.

    replay.py FILE       each line "+ ID BYTES" or "- ID"; see `cenote trace convert --to ops`

One line comes out: operations, peak of live and held bytes, their ratio, time an operation.
"""

import sys
import time

import cenote


def read(path):
    """The operations as (slot, bytes or None), and the number of slots; one slot a block."""
    operations, live, slots = [], {}, 0
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "+" and len(words) == 3 and words[2].isdigit() and words[1] not in live:
                live[words[1]] = slots
                operations.append((slots, int(words[2])))
                slots += 1
            elif words[0] == "-" and len(words) == 2 and words[1] in live:
                operations.append((live.pop(words[1]), None))
            else:
                raise ValueError(
                    f"{path}:{number}: expected '+ ID BYTES' of a new block or '- ID' of a live one"
                )
    if not operations:
        raise ValueError(f"{path}: the file has no operations")
    return operations, slots


def run(operations, slots, pool):
    """Runs every operation; the time in nanoseconds, and the blocks that are still live."""
    blocks = [None] * slots
    alloc = pool.alloc
    start = time.perf_counter_ns()
    for slot, size in operations:
        if size is None:
            blocks[slot].free()
        else:
            blocks[slot] = alloc(size)
    return time.perf_counter_ns() - start, blocks


def replay(path):
    operations, slots = read(path)
    pool = cenote.Pool()
    spent_ns, _blocks = run(operations, slots, pool)
    stats = pool.stats
    live, held = stats.peak_live_bytes, stats.peak_held_bytes
    print(
        f"{'Python':<8} {len(operations):9d} ops  peak live {live / 2**20:10.1f} MiB"
        f"  peak held {held / 2**20:10.1f} MiB  ratio {held / live if live else 1:6.4f}"
        f"  {spent_ns / len(operations):8.1f} ns/op"
    )


def main():
    if len(sys.argv) != 2:
        print("usage: replay.py FILE (lines '+ ID BYTES' and '- ID')", file=sys.stderr)
        return 2
    try:
        replay(sys.argv[1])
    except (cenote.Error, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
