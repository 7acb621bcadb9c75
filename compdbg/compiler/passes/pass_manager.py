"""`PostGradPassManager`: runs our passes where Inductor calls back, after its own passes.

The order: what tidies (no-op elimination), fusions as configured, the user's passes, then clean-up
and the functionalization fix-up. Which fusions exist is a registry: a switch of `PassConfig` names
the passes behind it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx.passes.graph_transform_observer import GraphTransformObserver

from compdbg import probe
from compdbg.compiler.caching import ORDER
from compdbg.compiler.config import CompilationConfig, DynamicShapesType, PassConfig
from compdbg.compiler.config_values import ConfigError
from compdbg.compiler.near_names import nearest
from compdbg.compiler.passes.attempts import Attempts
from compdbg.compiler.passes.fusion.fusion_pass import FusionPass
from compdbg.compiler.passes.inductor_pass import InductorPass, as_pass, get_pass_context, hash_dict
from compdbg.compiler.passes.lines import handed_on
from compdbg.compiler.passes.rank_agreement import tell_and_compare
from compdbg.compiler.passes.utility.fix_functionalization import FixFunctionalizationPass
from compdbg.compiler.passes.utility.noop_elimination import NoOpEliminationPass
from compdbg.compiler.passes.utility.output_strides import OutputStridesPass
from compdbg.compiler.passes.utility.post_cleanup import PostCleanupPass
from compdbg.compiler.passes.utility.residual_sums import ResidualSumPass
from compdbg.events import PassRun, PatternPass

MakePass = Callable[[CompilationConfig], InductorPass]

_HERE = "compdbg.compiler.passes."


def _imported(place: str) -> MakePass:
    """Imported when it is enabled: `module:class`, below `passes`."""
    return lambda config: as_pass(_HERE + place)


def _sequence_parallelism(config: CompilationConfig) -> InductorPass:
    """Beside `fuse_allreduce_rms`, which is quicker for few tokens, only where there are many."""
    from compdbg.compiler.ops.overlapped import OVERLAP_FROM
    from compdbg.compiler.passes.fusion.sequence_parallelism import SequenceParallelismPass

    both = config.pass_config.fuse_allreduce_rms
    return SequenceParallelismPass(from_tokens=OVERLAP_FROM if both else 0)


_registry: list[tuple[str, MakePass]] = [
    ("eliminate_noops", lambda config: NoOpEliminationPass()),
    ("enable_sp", _sequence_parallelism),
    ("fuse_gemm_comms", _imported("fusion.async_tp:AsyncTPPass")),
    ("fuse_allreduce_rms", _imported("fusion.allreduce_rms_fusion:AllReduceRMSNormFusionPass")),
    ("fuse_norm_quant", _imported("fusion.rms_quant_fusion:RMSNormQuantFusionPass")),
    ("fuse_act_quant", _imported("fusion.act_quant_fusion:ActivationQuantFusionPass")),
    ("fuse_attn_quant", _imported("fusion.attn_quant_fusion:AttnQuantFusionPass")),
    ("fuse_rope_kvcache", _imported("fusion.rope_kvcache_fusion:RoPEKVCacheFusionPass")),
    ("enable_qk_norm_rope_fusion", _imported("fusion.qk_norm_rope_fusion:QKNormRoPEFusionPass")),
    ("fuse_qkv_projection", _imported("fusion.qkv_projection_fusion:QKVProjectionFusionPass")),
    ("fuse_collectives", _imported("fusion.collective_fusion:CollectiveFusionPass")),
]


_TIDYING = frozenset({"eliminate_noops"})
_BEFORE_FUSIONS = (
    "utility.scatter_split_replacement:ScatterSplitReplacementPass",
    "utility.split_coalescing:SplitCoalescingPass",
)
"""What tidies for fusions alone: without any, Inductor's own ways will do."""
_FOLD, _UNFOLD = "utility.blocks:FoldBlocksPass", "utility.blocks:UnfoldBlocksPass"
_OF_BLOCKS = frozenset(
    {
        "enable_sp",
        "fuse_allreduce_rms",
        "fuse_norm_quant",
        "fuse_act_quant",
        "fuse_attn_quant",
        "fuse_rope_kvcache",
        "enable_qk_norm_rope_fusion",
    }
)
"""Fusions that match building blocks, which stand as one operator each while they run."""


def register_pass(flag: str, make: MakePass) -> None:
    """Put a pass behind a switch of `PassConfig`; passes run in the order of registration."""
    if flag not in PassConfig.flags():
        raise ConfigError(f"PassConfig has no {flag!r}{nearest(flag, PassConfig.flags())}")
    _registry.append((flag, make))


def available_passes() -> frozenset[str]:
    """The switches that have a pass behind them."""
    return frozenset(flag for flag, _ in _registry)


def fusions() -> list[Any]:
    """One of each pass of ours that has patterns."""
    config = CompilationConfig()
    made = [_imported(_FOLD)(config), *(make(config) for _, make in _registry)]
    return [pass_ for pass_ in made if hasattr(pass_, "patterns")]


class PostGradPassManager(CustomGraphPass):  # type: ignore[misc]
    """What Inductor calls as `post_grad_custom_post_pass`."""

    def __init__(self) -> None:
        self.passes: list[InductorPass] = []
        self.last: list[InductorPass] = [PostCleanupPass(), FixFunctionalizationPass()]
        self.runs: list[PassRun] = []
        """What ran over the graph compiled last, and what it changed."""
        self.matches: list[PatternPass] = []
        self._refused: set[tuple[str, str]] = set()

    def configure(self, config: CompilationConfig) -> None:
        """Take up the passes that an effective configuration enables."""
        enabled = [flag for flag, _ in _registry if getattr(config.pass_config, flag)]
        made = [(flag, make(config)) for flag, make in _registry if flag in enabled]
        fusions = [pass_ for flag, pass_ in made if flag not in _TIDYING]
        folds = bool(_OF_BLOCKS.intersection(enabled))
        self.passes = [_imported(place)(config) for place in _BEFORE_FUSIONS if fusions]
        self.passes += [pass_ for flag, pass_ in made if flag in _TIDYING]
        self.passes += [_imported(_FOLD)(config)] if folds else []
        self.passes += [ResidualSumPass(), *fusions]
        self.passes += [_imported(_UNFOLD)(config)] if folds else []
        self.passes += [as_pass(given) for given in config.inductor_passes]
        self.last = [PostCleanupPass(), FixFunctionalizationPass()]
        if config.dynamic_shapes_config.type is DynamicShapesType.UNBACKED:
            self.last.append(OutputStridesPass())

    def add(self, pass_: InductorPass) -> None:
        """One more, after those there are."""
        self.passes.append(as_pass(pass_))

    def __call__(self, graph: fx.Graph) -> None:
        compile_range = get_pass_context().compile_range
        self.runs, self.matches = [], []
        given = _ops(graph)
        for pass_ in (*self.passes, *self.last):
            why = pass_.refusal(graph, compile_range)
            if why:
                self._refuse(pass_, why)
            else:
                self._run(pass_, graph)
        tell_and_compare(probe.graph_under_way() or "?", given, self.matches)

    def _refuse(self, pass_: InductorPass, why: str) -> None:
        """Keep that a pass was skipped; it is said once for each reason, not for each graph."""
        graph = probe.graph_under_way() or "?"
        run = PassRun(pass_name=pass_.name, graph=graph, index=len(self.runs), custom=True, disabled_by=why)
        self.runs.append(run)
        if (pass_.name, why) not in self._refused:
            self._refused.add((pass_.name, why))
            number, within = probe.next_pass(graph), probe.pass_under_way()
            probe.emit(msgspec.structs.replace(run, index=number, within=within))

    def _run(self, pass_: InductorPass, graph: fx.Graph) -> None:
        before = _ops(graph)
        text = _text(graph)
        with handed_on(graph):
            started = time.perf_counter()
            if type(pass_).__call__ is FusionPass.__call__:
                pass_(graph)  # torch's matcher has an observer of its own
            else:
                GraphTransformObserver(graph.owning_module, pass_.name, "compdbg").apply_graph_pass(pass_)
            duration = (time.perf_counter() - started) * 1e6
        after = _ops(graph)
        delta = {op: after[op] - before[op] for op in sorted(before | after) if after[op] != before[op]}
        matched = getattr(pass_, "matched_count", None)
        self._dump(pass_, text, _text(graph))
        self.runs.append(
            PassRun(
                pass_name=pass_.name,
                graph="",
                index=len(self.runs),
                changed=bool(delta) or bool(matched),
                op_delta=delta,
                duration_us=duration,
                custom=True,
            )
        )
        if matched is not None:
            self._count(pass_, matched)

    def _count(self, pass_: InductorPass, matched: int) -> None:
        """Keep how often a pass matched; and say it, of passes that torch's matcher does not run for."""
        graph = probe.graph_under_way() or "?"
        counted = PatternPass(pass_id=pass_.name, pass_name=pass_.name, graph="", matched=matched)
        self.matches.append(counted)
        if pass_.looks_for:
            attempts = getattr(pass_, "_attempts", None) or Attempts(pass_.name)
            attempts.tell(msgspec.structs.replace(counted, graph=graph), pass_.looks_for)

    def _dump(self, pass_: InductorPass, before: str, after: str) -> None:
        """The graph around a pass, where it changed it."""
        if before != after:
            name = f"{len(self.runs):02}.{pass_.name}"
            files = {f"{name}.before.py": before, f"{name}.after.py": after}
            get_pass_context().dump.at("passes").write(files)

    def uuid(self) -> str:
        """Covers every pass, their order, the range, and all factors of our own key."""
        context = get_pass_context()
        return hash_dict(
            {
                "passes": [pass_.uuid() for pass_ in (*self.passes, *self.last)],
                "applicable": [p.is_applicable_for_range(context.compile_range) for p in self.passes],
                "range": str(context.compile_range),
                "key": context.key,
            }
        )

    def identity(self) -> dict[str, str]:
        """Each pass by its name with its uuid, and their order: factors of a cache key."""
        names: list[str] = []
        found: dict[str, str] = {}
        for each in (*self.passes, *self.last):
            same = sum(name.partition(" #")[0] == each.name for name in names)
            names.append(f"{each.name} #{same + 1}" if same else each.name)
            found[f"pass {names[-1]}"] = each.uuid()
        return {**found, ORDER: ", ".join(names)}

    def __getstate__(self) -> dict[str, Any]:
        """Copied and hashed by Inductor along with its configuration: identity is the uuid."""
        return {"uuid": self.uuid()}

    def __deepcopy__(self, memo: Any) -> PostGradPassManager:
        return self


def _ops(graph: fx.Graph) -> Counter[str]:
    return Counter(str(node.target) for node in graph.nodes if node.op.startswith("call"))


def _text(graph: fx.Graph) -> str:
    return str(graph.python_code("self").src) if get_pass_context().dump.wanted else ""
