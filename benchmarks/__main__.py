"""Speed and scale: run the benchmarks one after the other, then write their page.

    python -m benchmarks                 # on CPU, under 15 minutes on two cores
    python -m benchmarks --full          # also a million nodes on CPU
    python -m benchmarks --gpu           # those that need a GPU, and only those
    python -m benchmarks --only scale    # some of them
    python -m benchmarks --page          # the page alone, from the records there are

Each writes ``benchmarks/results/NAME.json``, and all of those on CPU together ``all-cpu.json``, how long they took; the
page is ``docs/performance.md``. ENZYMES and PROTEINS_full are needed (``megae data get``, or the folder that
``MEGAE_DATA`` names). Waiting threads of OpenMP sleep, as on the command line of megae, unless ``OMP_WAIT_POLICY`` says
otherwise. The exit code tells whether all of them ran, not whether what is asked of the figures is met: the page says
that.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from benchmarks import figures, performance

CPU = ("filter_cpu", "step_cpu", "authors", "entropy", "scale", "streaming")
GPU = ("gpu_filter", "gpu_step", "scale")


def run(name: str, gpu: bool, full: bool) -> tuple[bool, float]:
    """Run one benchmark in a process of its own; returns whether it ended well and how many seconds it took."""
    options = [*(["--device", "cuda"] if gpu and name == "scale" else []), *(["--full"] if full else [])]
    print(f"== {name}", flush=True)
    began = time.perf_counter()
    environment = {"OMP_WAIT_POLICY": "passive", **os.environ}
    code = subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options], env=environment).returncode
    ending, seconds = "done" if code == 0 else f"failed with exit code {code}", time.perf_counter() - began
    print(f"== {name}: {ending} after {seconds:.0f} s", flush=True)
    return code == 0, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--only", nargs="+", choices=sorted({*CPU, *GPU}), metavar="NAME")
    args = parser.parse_args()
    chosen = [] if args.page else [n for n in (GPU if args.gpu else CPU) if args.only is None or n in args.only]
    ended = {name: run(name, args.gpu, args.full and name == "scale" and not args.gpu) for name in chosen}
    if tuple(ended) == CPU and not args.full and all(well for well, _ in ended.values()):
        performance.write_total({name: seconds for name, (_, seconds) in ended.items()})
    performance.write_plots()
    figures.main()
    for record, bar in performance.bars():
        print(f"{'met   ' if bar['met'] else 'MISSED'}  {bar['what']}: {performance.asked(bar)}  ({record})")
    return 0 if all(well for well, _ in ended.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
