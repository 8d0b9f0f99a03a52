"""Records what PyTorch allocates and frees while real models run, as `.trace.csv` files.

Needs a CUDA GPU, PyTorch, transformers and torchvision. The first step of each model is not
recorded: it builds the optimiser's state and the libraries' workspaces, which then count as live
from the start. Columns: phase (`pre` for blocks already live, else `rec`), t_us, op, id, bytes,
stream. `cenote replay FILE` reads them as they are.

    python3 scripts/record/record.py --out traces
"""

import argparse
import csv
import gc
import pathlib
import sys
import time

import models


class Trace:
    """Events in the form that replay reads."""

    def __init__(self) -> None:
        self.rows = []
        self.ids = {}
        self.sizes = {}
        self.streams = {}
        self.next_id = 1
        self.live = self.peak = 0

    def stream(self, handle: int) -> int:
        """Small numbers in order of appearance instead of addresses."""
        return self.streams.setdefault(handle, len(self.streams))

    def alloc(self, phase: str, t_us: int, address: int, size: int, handle: int) -> None:
        """A block comes."""
        self.ids[address] = self.next_id
        self.sizes[address] = size
        self.rows.append((phase, t_us, "alloc", self.next_id, size, self.stream(handle)))
        self.next_id += 1
        self.live += size
        self.peak = max(self.peak, self.live)

    def free(self, t_us: int, address: int, handle: int) -> None:
        """A block goes; one whose allocation nobody saw is left out."""
        if address not in self.ids:
            return
        size = self.sizes.pop(address)
        self.rows.append(
            ("rec", t_us, "free", self.ids.pop(address), size, self.stream(handle))
        )
        self.live -= size

    def write(self, path: pathlib.Path) -> None:
        """As comma-separated text."""
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("phase", "t_us", "op", "id", "bytes", "stream"))
            writer.writerows(self.rows)


def blocks_of(snapshot: dict):
    """Live blocks of a snapshot: address, requested bytes, stream."""
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                size = block.get("requested_size") or block["size"]
                yield block.get("address", address), size, segment["stream"]
            address += block["size"]


def to_trace(before: dict, after: dict, device: int, skip: int) -> Trace:
    """The events of `after` on a device, on top of the blocks that `before` shows."""
    trace = Trace()
    for address, size, handle in blocks_of(before):
        trace.alloc("pre", 0, address, size, handle)
    events = after["device_traces"][device][skip:]
    start = events[0]["time_us"] if events else 0
    for event in events:
        t_us = event["time_us"] - start
        if event["action"] == "alloc":
            trace.alloc("rec", t_us, event["addr"], event["size"], event["stream"])
        elif event["action"] == "free_requested":
            trace.free(t_us, event["addr"], event["stream"])
    return trace


def record(torch, build, small: bool) -> Trace:
    """Runs one model: its first step unseen, the others recorded."""
    memory = torch.cuda.memory
    torch.manual_seed(1)
    step, sizes = build(torch, small)
    step(sizes[0])
    torch.cuda.synchronize()
    gc.collect()
    memory._record_memory_history("all", context=None, stacks="python", max_entries=1_000_000)
    before = memory._snapshot()
    # Recordings of this process share one history; ours begins here.
    skip = len(before["device_traces"][torch.cuda.current_device()])
    for size in sizes[1:]:
        step(size)
    torch.cuda.synchronize()
    after = memory._snapshot()
    memory._record_memory_history(None)
    return to_trace(before, after, torch.cuda.current_device(), skip)


def main() -> int:
    """One file a model, and a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="traces")
    parser.add_argument("--only", default=",".join(models.MODELS), help="names, comma-separated")
    parser.add_argument("--small", action="store_true", help="tiny models, to try the script")
    args = parser.parse_args()
    import torch

    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in args.only.split(","):
        start = time.perf_counter()
        try:
            trace = record(torch, models.MODELS[name], args.small)
        except Exception as error:  # the other recordings are still worth having
            print(f"{name:<20} FAILED {type(error).__name__}: {error}")
            failed += 1
            continue
        trace.write(out / f"{name}.trace.csv")
        pre = sum(row[0] == "pre" for row in trace.rows)
        print(f"{name:<20} {len(trace.rows) - pre:6d} operations on {pre} live blocks, "
              f"peak {trace.peak / 2**30:6.2f} GiB, {len(trace.streams)} streams, "
              f"{time.perf_counter() - start:5.1f} s", flush=True)
        del trace
        gc.collect()
        torch.cuda.empty_cache()
    return failed


if __name__ == "__main__":
    sys.exit(main())
