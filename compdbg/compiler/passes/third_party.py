"""Passes of other packages, by entry points `compdbg.passes`; one that fails is told and left out.

A configuration names such a pass by its entry point: `inductor_passes=["tidy"]`.
"""

from __future__ import annotations

import copy
import importlib.metadata
import logging
import traceback
from pathlib import Path

import torch
from torch import fx

from compdbg import probe
from compdbg.compiler.config_values import ConfigError
from compdbg.compiler.near_names import near_names, nearest
from compdbg.compiler.passes.inductor_pass import InductorPass, as_pass, get_pass_context, hash_dict
from compdbg.compiler.ranges import Range
from compdbg.events import PassRun, Where

GROUP = "compdbg.passes"
log = logging.getLogger("compdbg.compiler")
_NOT_THEIRS = tuple(str(Path(each).parent) for each in (torch.__file__, probe.__file__, importlib.__file__))


def third_party_pass(name: str) -> InductorPass:
    """The pass that another package offers under a name.

    Raises:
        ConfigError: no package offers one.
    """
    entries = {entry.name: entry for entry in importlib.metadata.entry_points(group=GROUP)}
    if name not in entries:
        near = near_names(name, list(entries))
        hint = nearest(name, entries) if near else "; write `module:object` for one of your own"
        raise ConfigError(f"inductor_passes: no package offers a pass {name!r}{hint}")
    return ThirdPartyPass(entries[name])


class ThirdPartyPass(InductorPass):
    """A pass that we did not write. Where it raises, the graph is put back as it was."""

    def __init__(self, entry: importlib.metadata.EntryPoint) -> None:
        self.entry = entry
        self.inner: InductorPass | None = None
        try:
            offered = entry.load()
            self.inner = as_pass(offered() if isinstance(offered, type) else offered)
        except Exception as error:
            self._tell(error)

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def matched_count(self) -> int | None:
        """Matches replaced in the graph that ran last, where the pass counts them."""
        return getattr(self.inner, "matched_count", None)

    def is_applicable_for_range(self, compile_range: Range) -> bool:
        if self.inner is None:
            return False
        try:
            return self.inner.is_applicable_for_range(compile_range)
        except Exception as error:
            self._tell(error)
            return False

    def __call__(self, graph: fx.Graph) -> None:
        assert self.inner is not None
        before = copy.deepcopy(graph)
        was_sound = _is_sound(graph)
        try:
            self.inner(graph)
            if was_sound:
                graph.lint()
        except Exception as error:
            self._tell(error)
            _put_back(graph, before)

    def uuid(self) -> str:
        inner = self.inner.uuid() if self.inner is not None else "absent"
        return hash_dict({"entry": self.entry.value, "pass": inner})

    def _tell(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        short = text.partition("\n")[0]
        package = self.entry.dist.name if self.entry.dist is not None else self.entry.value
        log.warning("the pass %r of %s failed and is left out: %s", self.entry.name, package, short)
        graph = probe.graph_under_way() or f"range {get_pass_context().compile_range}"
        failed = PassRun(
            pass_name=self.entry.name,
            graph=graph,
            index=probe.next_pass(graph),
            within=probe.pass_under_way(),
            custom=True,
            error=text,
            where=_raised_at(error),
        )
        probe.emit(failed)


def _raised_at(error: Exception) -> Where | None:
    """The innermost line of the pass's own code; none, where what it left was found to be no graph."""
    theirs = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_NOT_THEIRS)]
    frame = theirs[-1] if theirs else None
    return frame and Where(file=frame.filename, line=frame.lineno or 0, function=frame.name)


def _is_sound(graph: fx.Graph) -> bool:
    try:
        graph.lint()
    except Exception:  # torch's lint knows less than what Inductor makes of a graph
        return False
    return True


def _put_back(graph: fx.Graph, before: fx.Graph) -> None:
    """Give a graph, which others hold, the nodes that its copy has."""
    for node in graph.nodes:
        node.args, node.kwargs = (), {}
    for node in list(graph.nodes):
        graph.erase_node(node)
    graph._graph_namespace = type(graph._graph_namespace)()  # else every name would get a number
    copied: dict[fx.Node, fx.Node] = {}
    for node in before.nodes:
        copied[node] = graph.node_copy(node, lambda old: copied[old])
