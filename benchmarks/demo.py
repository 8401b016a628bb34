"""The demo of the command line, as a record.

python -m benchmarks.demo
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.record import RESULTS, write_record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "demo.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        command = [sys.executable, "-m", "megae", "demo", "--json", "--device", "cpu", "--out", folder]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds = time.perf_counter() - began
    result = json.loads(printed)
    rows = [{k: row[k] for k in ("method", "label", "rmse", "mae", "seconds")} for row in result["rows"]]
    write_record(args.out, {"seed": result["seed"], "seconds": seconds, "rows": rows})
    for row in rows:
        print(f"{row['label']:32} {row['rmse']:.4f} {row['seconds']:7.1f} s")
    print(f"the whole command took {seconds:.0f} s")


if __name__ == "__main__":
    main()
