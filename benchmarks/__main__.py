"""`make bench`: every benchmark that runs on this machine, one after the other."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks


def main() -> None:
    wanted = sys.argv[1:]
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if module.name.startswith("bench_") and (not wanted or module.name.removeprefix("bench_") in wanted):
            importlib.import_module(f"benchmarks.{module.name}").main()


if __name__ == "__main__":
    main()
