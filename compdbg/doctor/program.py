"""The self-check program: a few lines for each thing that a hook watches. Run by `compdbg doctor`."""

from __future__ import annotations

import torch
import torch._inductor.config as inductor
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._inductor.pattern_matcher import PatternMatcherPass, fwd_only, register_replacement


@torch.library.custom_op("compdbg_doctor::write_both", mutates_args=("a", "b"))
def write_both(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    a[0].copy_(x)
    b[0].copy_(x)


def sin_then_round(x: torch.Tensor) -> torch.Tensor:
    return x.sin().round()


def round_of_sin(x: torch.Tensor) -> torch.Tensor:
    return torch.round(torch.sin(x) + 0)


class FusePass(CustomGraphPass):
    """A fusion that fires once and misses once in `fused`."""

    def __init__(self) -> None:
        self.patterns = PatternMatcherPass(pass_name="doctor")
        register_replacement(sin_then_round, round_of_sin, [torch.empty(4)], fwd_only, self.patterns)

    def __call__(self, graph: torch.fx.Graph) -> None:
        self.patterns.apply(graph)

    def uuid(self) -> bytes:
        return get_hash_for_files((__file__,))


def frames_and_guards() -> None:
    """A dropped guard that is violated, a recompile, a graph break, a dimension that became dynamic."""

    def scaled(x: torch.Tensor, scale: float) -> torch.Tensor:
        return x * scale if x.shape[0] > 2 else x

    options = {"guard_filter_fn": lambda guards: [False] * len(guards)}
    dropped = torch.compile(scaled, backend="eager", options=options)
    dropped(torch.ones(4), 2.0)
    dropped(torch.ones(1), 2.0)

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * x.shape[0]

    kept = torch.compile(broken, backend="eager")
    for n in (3, 4, 5):
        kept(torch.ones(n))


def passes_and_caches() -> None:
    """A custom fusion, a copy that functionalization keeps, a cache lookup, generated code."""

    def fused(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        write_both(x, a, b)
        y = x.cos().sin()
        return x.sin().round(), y.round() + y

    pool = torch.zeros(2, 1024, 4)
    with inductor.patch(post_grad_custom_post_pass=FusePass()):
        torch.compile(fused, fullgraph=True)(torch.ones(4), pool[0], pool[1])


def cuda_graphs() -> None:
    """`reduce-overhead`, warmed up and recorded; without a GPU torch has nothing to record or to skip."""
    if torch.cuda.is_available():
        step = torch.compile(lambda x: x + 1, mode="reduce-overhead")
        for _ in range(3):
            step(torch.ones(4, device="cuda"))


def pieces() -> None:
    """A backend that splits its graph."""

    def split(graph: torch.fx.GraphModule, example_inputs: object) -> object:
        from torch.fx.passes.split_module import split_module

        return split_module(graph, None, lambda node: int(node.name.startswith("cos")))

    torch.compile(lambda x: x.sin().cos(), backend=split)(torch.ones(4))


def main() -> None:
    frames_and_guards()
    passes_and_caches()
    pieces()
    cuda_graphs()


if __name__ == "__main__":
    main()
