"""Proves fusions: a pattern finds itself where it runs, reaches its outputs, equals its replacement.

Tests and `compdbg doctor` do this, once for each state of the sources; importing a pass never does.
`python -m compdbg.compiler.passes.fusion.proof` prints a line of JSON for each pass.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
import torch
import torch.distributed as dist
from msgspec import Struct
from torch import fx

from compdbg.compiler.cache_factors import machine_factors
from compdbg.compiler.passes.at_stage import show_to_pass
from compdbg.compiler.passes.fusion.agreement import compared
from compdbg.compiler.passes.fusion.fusion_pass import FusionPattern, register_forms, trace_pattern
from compdbg.compiler.passes.inductor_pass import hash_dict


class HasForms(Protocol):
    """A fusion, or another pass with patterns."""

    @property
    def name(self) -> str: ...
    def patterns(self) -> Iterator[FusionPattern]: ...
    def uuid(self) -> str: ...


class Problem(Struct, frozen=True):
    """What is wrong with one pattern: `no-self-match`, `unreachable-output`, or where it disagrees."""

    pattern: str
    what: str
    detail: str


class Proof(Struct, frozen=True, kw_only=True):
    """The outcome for one pass, and for how many patterns it holds."""

    name: str
    forms: int
    problems: list[Problem] = []


def prove(fusion: HasForms, device: str = "cpu", tolerance: float = 1e-2) -> Proof:
    """Prove every pattern of a pass on `device`."""
    forms = list(fusion.patterns())
    with _some_ranks():
        problems = [problem for form in forms for problem in _problems(form, device, tolerance)]
    return Proof(name=fusion.name, forms=len(forms), problems=problems)


@contextmanager
def _some_ranks() -> Iterator[None]:
    """Patterns of collectives need a process group; one of this process alone will do."""
    if not dist.is_available() or dist.is_initialized():
        yield
        return
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def proved(fusion: HasForms, device: str = "cpu") -> Proof:
    """The same, kept on disk for as long as the sources, torch and the machine are what they were."""
    factors = {**machine_factors(), "pass": fusion.uuid(), "device": device}
    key = hash_dict(factors)[:32]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    file = home / "compdbg" / "proofs" / f"{fusion.name}-{key}.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=Proof)
    except (OSError, msgspec.DecodeError):
        proof = prove(fusion, device)
        _keep(file, proof)
        return proof


def _keep(file: Path, proof: Proof) -> None:
    partial = file.with_suffix(f".{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(msgspec.json.encode(proof))
        partial.replace(file)
    except OSError:
        partial.unlink(missing_ok=True)


def _problems(form: FusionPattern, device: str, tolerance: float) -> Iterator[Problem]:
    reached, total = _reachable_outputs(form)
    if reached < total:
        detail = f"{total - reached} of {total} outputs have no node in common with the first"
        yield Problem(form.name, "unreachable-output", detail)
    elif not _matches_itself(form, device):
        yield Problem(form.name, "no-self-match", "it does not match its own graph after Inductor's passes")
    for inputs in form.all_inputs():
        for found in compared(form, inputs, device, tolerance):
            shapes = ", ".join(f"{t.dtype} {list(t.shape)}" for t in inputs)
            detail = f"wanted {found.wanted}, found {found.found} for {shapes}"
            yield Problem(form.name, found.what, detail)


def _matches_itself(form: FusionPattern, device: str) -> bool:
    matcher = register_forms("proof", [form])
    matched = 0

    def apply(graph: fx.Graph) -> None:
        nonlocal matched
        matched += matcher.apply(graph)

    inputs = _zeros(form, device)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch warns that its caches are off, as asked
        show_to_pass(_with_scalars(form), inputs, apply)
    return matched > 0


def _zeros(form: FusionPattern, device: str) -> list[torch.Tensor]:
    """The example inputs with values that are valid as indices too."""
    return [torch.zeros(t.shape, dtype=t.dtype, device=device) for t in form.inputs()]


def _with_scalars(form: FusionPattern) -> Callable[..., Any]:
    scalars = form.scalar_workaround or {}
    return lambda *tensors: form.pattern(*tensors, **scalars)


def _reachable_outputs(form: FusionPattern) -> tuple[int, int]:
    """Of the outputs of the traced pattern, those that matching can come to from the first; and all."""
    with torch.no_grad():
        graph = trace_pattern(_with_scalars(form), _zeros(form, "cpu")).graph
    outputs = [node for node in graph.output_node().all_input_nodes if node.op != "placeholder"]
    reached: set[fx.Node] = set()
    waiting = outputs[:1]
    while waiting:
        node = waiting.pop()
        if node not in reached:
            reached.add(node)
            waiting += [n for n in (*node.all_input_nodes, *node.users) if n.op != "output"]
    return sum(output in reached for output in outputs), len(outputs)


def all_fusions() -> list[HasForms]:
    """Every pass with patterns that comes with us."""
    from compdbg.compiler.passes.pass_manager import fusions

    return fusions()


def main() -> None:
    """Prove them all."""
    for fusion in all_fusions():
        print(msgspec.json.encode(proved(fusion)).decode(), flush=True)


if __name__ == "__main__":
    main()
