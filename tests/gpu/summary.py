"""Collects the parts' statuses and all figures of a run into one JSON file.

    summary.py WORK_FOLDER OUT_FILE
"""

import json
import pathlib
import sys


def main() -> int:
    """Reads summary.rows and every JSON file beside it."""
    work, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    parts = []
    for row in (work / "summary.rows").read_text(encoding="utf-8").splitlines():
        name, status, seconds, figures = row.split("|", 3)
        parts.append(
            {"part": name, "status": status, "seconds": float(seconds), "figures": figures}
        )
    results = {}
    for path in sorted(work.glob("*.json")):
        try:
            results[path.stem] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            results[path.stem] = {"unreadable": str(error)}
    out.write_text(json.dumps({"parts": parts, "results": results}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
