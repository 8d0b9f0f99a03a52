"""Runs bert_train.py once for each allocator, each in a process of its own, and compares."""

import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
GIB = 1 << 30
# What other libraries in the process may keep beside the allocator.
TOLERANCE_BYTES = 64 << 20
# In a MemPool cenote holds what PyTorch's own allocator reserves, and a slack of its own.
PEAK_SHARE = {"mempool": 1.02, "global": 1.0}


def options(description: str) -> argparse.Namespace:
    """Command line of both scripts."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--work", default="bert-results", help="where runs leave their results")
    parser.add_argument("--json", help="write the comparison here")
    parser.add_argument("--shim", default="libcenote_torch.so")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--limit-s", type=int, default=100, help="time limit of one run")
    args = parser.parse_args()
    pathlib.Path(args.work).mkdir(parents=True, exist_ok=True)
    return args


def run(args: argparse.Namespace, name: str, variant: str) -> dict:
    """One run; a native one that is there already with the same options is taken as it is."""
    shape = f"{args.steps}-{args.batch}-{args.layers}"
    out = pathlib.Path(args.work) / f"{name}-{shape}.json"
    if not (name.startswith(("native", "expandable")) and out.exists()):
        out.unlink(missing_ok=True)
        command = [sys.executable, str(HERE / "bert_train.py"), "--variant", variant]
        command += ["--out", str(out), "--shim", os.path.abspath(args.shim)]
        command += ["--steps", str(args.steps), "--batch", str(args.batch)]
        command += ["--layers", str(args.layers)]
        try:
            code = subprocess.run(command, timeout=args.limit_s, check=False).returncode
        except subprocess.TimeoutExpired:
            code = "time limit"
        if code != 0 or not out.exists():
            return {"variant": variant, "failed": f"exit {code}"}
    return json.loads(out.read_text(encoding="utf-8"))


def table(results: dict) -> None:
    """Side by side, one line a run."""
    print(f"{'run':<12} {'step ms':>8} {'peak held':>10} {'peak live':>10} {'held/live':>9} "
          f"{'device':>8} {'empty_cache: before':>19} {'after':>7} {'GiB':>3} {'s':>5}")
    for name, r in results.items():
        if "failed" in r:
            print(f"{name:<12} FAILED: {r['failed']}")
            continue
        ratio = r["peak_held_bytes"] / r["peak_live_bytes"]
        print(f"{name:<12} {r['step_ms']:8.1f} {r['peak_held_bytes'] / GIB:10.3f} "
              f"{r['peak_live_bytes'] / GIB:10.3f} {ratio:9.4f} "
              f"{r['device_used_bytes'] / GIB:8.3f} {r['before_empty_bytes'] / GIB:19.3f} "
              f"{r['after_empty_bytes'] / GIB:7.3f} {'':>3} {r['seconds']:5.1f}")
        for line in r.get("warnings", []):
            print(f"{'':<12} warning: {line}")


def same(a: dict, b: dict) -> bool:
    """Equal to the last bit: every loss, and the sum of all parameters' bits."""
    return a.get("losses") == b.get("losses") and a.get("checksum") == b.get("checksum")


def verdicts(results: dict, subject: str) -> dict:
    """What must hold, by name."""
    native, mine = results["native 1"], results[subject]
    if "failed" in native or "failed" in mine:
        return {"all runs ended": False}
    key = "after_empty_bytes"
    held_by_native = max(native["after_empty_bytes"], native["base_bytes"])
    checks = {
        "native equals native": same(native, results["native 2"]),
        f"{subject} equals native to the last bit": same(native, mine),
        "losses are finite": all(abs(float.fromhex(x)) < 1e6 for x in mine["losses"]),
        "empty_cache gave the memory back": mine[key] <= held_by_native + TOLERANCE_BYTES,
        "peak held is no more than native's":
            mine["peak_held_bytes"] <= native["peak_held_bytes"] * PEAK_SHARE[subject],
    }
    for name, text in mine.get("probes", {}).items():
        if name == "graph":
            print(f"probe, not judged: {name}: {text}")
        else:
            checks[f"probe {name}"] = text == "ok"
            if text != "ok":
                print(f"probe {name}: {text}")
    return checks


def compare(args: argparse.Namespace, subject: str, others: dict) -> int:
    """Runs, prints, writes; the number of checks that failed."""
    results = {"native 1": run(args, "native1", "native"),
               "native 2": run(args, "native2", "native")}
    for name, variant in others.items():
        results[name] = run(args, name, variant)
    results[subject] = run(args, subject, subject)
    table(results)
    checks = verdicts(results, subject)
    for name, held in checks.items():
        print(f"{'ok' if held else 'MISSED':<7} {name}")
    if args.json:
        data = {"subject": subject, "checks": checks, "runs": results}
        pathlib.Path(args.json).write_text(json.dumps(data), encoding="utf-8")
    return sum(not held for held in checks.values())
