"""The sum over ranks fused with what follows it, on the GPUs of one host: alone, and in a decoder.

    python -m benchmarks.gpu_tensor_parallel --out results        # about 5 minutes on two H200s
    python -m benchmarks.gpu_tensor_parallel --device cpu --small --out results

Each section is so many processes of its own, one a GPU, that are ended when their time is up: one
that fails or hangs is reported, and the next one runs. What was measured so far is in
`OUT/gpu_tensor_parallel.json` after every line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import tensor_parallel_sections

ROOT = Path(__file__).parent.parent
Row = dict[str, Any]

SECONDS = {"checks": 110, "sizes": 120, "choices": 100, "decode": 75, "overlap": 60}
"""What each section may take."""


def sections(options: argparse.Namespace) -> list[tuple[str, float]]:
    """Names, as `tensor_parallel_sections` knows them, and seconds."""
    decodes = [f"decode {way}" for way in tensor_parallel_sections.WAYS]
    names = ["checks", "sizes", *decodes, "overlap", "choices"]
    if options.device == "cpu":
        names = ["sizes", *decodes]
    if options.only:
        names = [name for start in options.only for name in names if name.startswith(start)]
    return [(name, SECONDS[name.split()[0]]) for name in names]


def environment(rank: int, ranks: int, port: int) -> dict[str, str]:
    """Of one rank. Multicast over NVLink stays off."""
    return {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "NCCL_NVLS_ENABLE": "0",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
        "TORCH_NCCL_ENABLE_MONITORING": "0",
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_section(name: str, limit: float, options: argparse.Namespace) -> Row:
    """All ranks of one section: lines of results as rank 0 gives them, and how it ended."""
    port, began = free_port(), time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.tensor_parallel_sections", name]
    command += [
        "--device",
        options.device,
        "--out",
        str(options.out),
        *(["--small"] if options.small else []),
    ]
    ranks = [
        subprocess.Popen(
            command, cwd=ROOT, env=environment(rank, options.ranks, port), start_new_session=True,
            stdout=None if rank == 0 else subprocess.DEVNULL,
            stderr=open(options.out / f"{name.replace(' ', '_')}.rank{rank}.txt", "w"),  # noqa: SIM115
        )
        for rank in range(options.ranks)
    ]  # fmt: skip
    try:
        codes = [left.wait(max(0.1, limit - (time.perf_counter() - began))) for left in ranks]
        ended = "well" if not any(codes) else f"exits {codes}"
    except subprocess.TimeoutExpired:
        ended = f"ended after {limit:.0f} s"
    finally:
        for rank in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(rank.pid, signal.SIGKILL)
            rank.wait()
    if ended != "well":
        print_errors(name, options)
    return {"ended": ended, "seconds": round(time.perf_counter() - began, 1)}


def print_errors(name: str, options: argparse.Namespace) -> None:
    for rank in range(options.ranks):
        text = (options.out / f"{name.replace(' ', '_')}.rank{rank}.txt").read_text(errors="replace")
        print(f"--- {name}, rank {rank}\n{text[-2500:]}", flush=True)


def collected(out: Path) -> list[Row]:
    lines = out / "lines.jsonl"
    return [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []


def table(rows: list[Row]) -> str:
    """Microseconds by size, in one table a width."""
    found: dict[tuple[int, int], Row] = {}
    for row in rows:
        if row["section"] == "sizes":
            found.setdefault((row["width"], row["tokens"]), {})[row["way"]] = row["us"]
    names = list(dict.fromkeys(way for row in found.values() for way in row))
    lines = ["| width | tokens | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    for (width, tokens), row in sorted(found.items()):
        cells = " | ".join(f"{row[name]:.1f}" if name in row else "-" for name in names)
        lines.append(f"| {width} | {tokens} | {cells} |")
    return "\n".join(lines)


def best_choices(rows: list[Row]) -> str:
    """The quickest ways to launch, by size."""
    found: dict[tuple[int, int], list[tuple[float, str]]] = {}
    for row in rows:
        if row["section"] == "choices":
            found.setdefault((row["width"], row["tokens"]), []).append((row["us"], row["way"]))
    return "\n".join(
        f"{width} x {tokens}: " + ", ".join(f"{way} {us:.1f}" for us, way in sorted(each)[:4])
        for (width, tokens), each in sorted(found.items())
    )


def decode_table(rows: list[Row]) -> str:
    return "\n".join(
        json.dumps({k: v for k, v in row.items() if k != "section"})
        for row in rows
        if row["section"].startswith("decode")
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--small", action="store_true", help="a toy, to try this where there is no GPU")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--seconds", type=float, default=285, help="all sections together")
    parser.add_argument("--only", nargs="*", help="beginnings of sections' names, in this order")
    options = parser.parse_args()
    options.out = options.out.absolute()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "lines.jsonl").unlink(missing_ok=True)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.mkdtemp(prefix="inductor-"))
    began, results = time.perf_counter(), {}
    for name, limit in sections(options):
        left = options.seconds - (time.perf_counter() - began)
        if left < 15:
            results[name] = {"ended": "not begun: no time left"}
            continue
        print(f"\n=== {name} ({left:.0f} s left)", flush=True)
        slower = 1 if options.device == "cuda" else 4
        results[name] = run_section(name, min(slower * limit, left), options)
        print(f"=== {name}: {results[name]}", flush=True)
        whole = {"sections": results, "rows": collected(options.out)}
        (options.out / "gpu_tensor_parallel.json").write_text(json.dumps(whole, indent=1) + "\n")
    rows = collected(options.out)
    print(f"\n{table(rows)}\n\n{best_choices(rows)}\n\n{decode_table(rows)}\n\n{json.dumps(results)}")


if __name__ == "__main__":
    main()
