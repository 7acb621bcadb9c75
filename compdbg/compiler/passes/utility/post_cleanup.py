"""After fusions: sort the graph again, and drop what nobody uses any more."""

from __future__ import annotations

from torch import fx

from compdbg.compiler.passes.inductor_pass import InductorPass


class PostCleanupPass(InductorPass):
    """A pattern's replacement may stand before its inputs, and leave nodes without users behind."""

    def __call__(self, graph: fx.Graph) -> None:
        from torch._inductor.pattern_matcher import stable_topological_sort

        stable_topological_sort(graph)
        graph.eliminate_dead_code()
