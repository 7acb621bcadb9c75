"""`FusionPass`: a pattern, what replaces it, and inputs to trace both with."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import msgspec
import torch
from msgspec import Struct
from torch import fx

from compdbg.compiler.canonical import canonical
from compdbg.compiler.code_hash import code_hash
from compdbg.compiler.passes.fusion.agreement import Disagreement, compared
from compdbg.compiler.passes.inductor_pass import InductorPass, enable_fake_mode, hash_dict
from compdbg.compiler.ranges import Range


class FusionPattern(Struct, frozen=True, kw_only=True):
    """One form of what is fused. `pattern` and `replacement` take the same tensors."""

    pattern: Callable[..., Any]
    replacement: Callable[..., Any]
    inputs: Callable[[], Sequence[torch.Tensor]]
    """Makes example tensors of the dtypes and ranks that the pattern is for."""
    extra_check: Callable[[Any], bool] | None = None
    """Given torch's Match: whether to replace it. Its name is what a refusal is reported by."""
    scalar_workaround: dict[str, float | int] | None = None
    """Parameters that are plain numbers, with a value to trace with: any other value matches too."""
    applies_to: Callable[[frozenset[torch.dtype]], bool] | None = None
    """Given the dtypes of a graph's tensors: whether it can hold the form. Else it is not looked for."""
    exclusive: tuple[str, ...] = ()
    """Parameters that must stand for different values where the pattern has equal parts."""
    variants: Callable[[], Iterable[Sequence[torch.Tensor]]] | None = None
    """Further inputs, of other sizes and dtypes, for which the replacement must equal the pattern."""

    @property
    def name(self) -> str:
        return getattr(self.pattern, "__name__", "pattern")

    def all_inputs(self) -> Iterator[Sequence[torch.Tensor]]:
        yield self.inputs()
        if self.variants is not None:
            yield from self.variants()


class FusionPass(InductorPass):
    """Replaces every match of its patterns.

    A subclass has either `pattern`, `replacement` and `inputs`, or `patterns` for several forms
    (another epsilon, another dtype), which are tried in order. It may be a dataclass, whose fields
    are its options. Where it says for what it is, it is skipped elsewhere, and that is said.
    """

    dtypes: ClassVar[tuple[torch.dtype, ...]] = ()
    """Graphs without any of these are skipped. Empty: any graph will do."""
    devices: ClassVar[tuple[str, ...]] = ()
    """Graphs with tensors on another device are skipped. Empty: on any."""
    max_tokens: ClassVar[int | None] = None
    """Ranges that go beyond are skipped."""

    _matched_count = 0
    _matchers: dict[tuple[int, ...], Any] | None = None

    @property
    def matched_count(self) -> int:
        """Matches replaced in the graph that ran last."""
        return self._matched_count

    def pattern(self, *tensors: torch.Tensor) -> Any:
        """What is looked for, written with operators as they stand after Inductor's passes."""
        raise NotImplementedError(f"{self.name} has neither `pattern` nor `patterns`")

    def replacement(self, *tensors: torch.Tensor) -> Any:
        """What stands in its place."""
        raise NotImplementedError(f"{self.name} has neither `replacement` nor `patterns`")

    def inputs(self) -> Sequence[torch.Tensor]:
        """Example tensors for both."""
        raise NotImplementedError(f"{self.name} has neither `inputs` nor `patterns`")

    def patterns(self) -> Iterator[FusionPattern]:
        """Every form, the most special first."""
        yield FusionPattern(pattern=self.pattern, replacement=self.replacement, inputs=self.inputs)

    def is_applicable_for_range(self, compile_range: Range) -> bool:
        return self.max_tokens is None or compile_range.high <= self.max_tokens

    def refusal(self, graph: fx.Graph, compile_range: Range) -> str:
        tensors = list(_tensors(graph))
        if self.dtypes and not any(t.dtype in self.dtypes for t in tensors):
            return f"not applicable: no tensor of {_listed(str(d) for d in self.dtypes)}"
        elsewhere = {t.device.type for t in tensors} - set(self.devices)
        if self.devices and elsewhere:
            return f"not applicable on {_listed(elsewhere)}, only on {_listed(self.devices)}"
        return super().refusal(graph, compile_range)

    def __call__(self, graph: fx.Graph) -> None:
        matcher = self._matcher_for(dtypes_of(graph))
        self.__dict__["_matched_count"] = matcher.apply(graph)

    def _matcher_for(self, held: frozenset[torch.dtype]) -> Any:
        """A matcher with those forms that a graph with these dtypes can hold; with all, if that is none."""
        forms = list(self.patterns())
        wanted = tuple(i for i, f in enumerate(forms) if f.applies_to is None or f.applies_to(held))
        wanted = wanted or tuple(range(len(forms)))
        matchers = self.__dict__.setdefault("_matchers", {})
        if wanted not in matchers:
            matchers[wanted] = register_forms(self.name, [forms[i] for i in wanted])
        return matchers[wanted]

    def uuid(self) -> str:
        forms = [msgspec.structs.asdict(form) for form in self.patterns()]
        return hash_dict({"pass": super().uuid(), "forms": canonical(forms, code_hash)})

    def disagreements(self, device: str = "cpu", tolerance: float = 1e-2) -> list[Disagreement]:
        """Run each pattern and its replacement on the same random inputs, and compare."""
        return [
            found
            for form in self.patterns()
            for inputs in form.all_inputs()
            for found in compared(form, inputs, device, tolerance)
        ]


@enable_fake_mode
def register_forms(name: str, forms: Sequence[FusionPattern]) -> Any:
    """A matcher of torch's with these forms; `name` is what it is called in events."""
    from torch._inductor.pattern_matcher import PatternMatcherPass, register_replacement

    named: type = type(name, (PatternMatcherPass,), {})
    matcher = named(pass_name=name)
    for form in forms:
        examples = list(form.inputs())
        register_replacement(
            form.pattern,
            form.replacement,
            examples,
            trace_pattern,
            matcher,
            scalar_workaround=form.scalar_workaround,
            exclusive_arg_names=form.exclusive,
            extra_check=_for_tensors(form, examples),
        )
    return matcher


def _for_tensors(form: FusionPattern, examples: Sequence[Any]) -> Callable[[Any], bool]:
    """The form's check, for matches with tensors where it has: `x * 2` is an `aten.mul.Tensor` as well.

    Torch 2.11 leaves a number out of the match that it gives to the check.
    """
    given = form.extra_check
    parameters = zip(inspect.signature(form.pattern).parameters, examples, strict=False)
    tensors = [name for name, example in parameters if isinstance(example, torch.Tensor)]

    def parameters_are_tensors(match: Any) -> bool:
        if not all(isinstance(match.kwargs.get(name), fx.Node) for name in tensors):
            return False
        return given is None or given(match)

    return functools.wraps(given)(parameters_are_tensors) if given is not None else parameters_are_tensors


def trace_pattern(*args: Any, **kwargs: Any) -> fx.GraphModule:
    """Trace a pattern to what a graph holds when fusions run: views are reshapes by then."""
    from torch._inductor.fx_passes.post_grad import view_to_reshape
    from torch._inductor.pattern_matcher import fwd_only

    module = fwd_only(*args, **kwargs)
    view_to_reshape(module)
    return module


def dtypes_of(graph: fx.Graph) -> frozenset[torch.dtype]:
    """Of all tensors of a graph."""
    return frozenset(tensor.dtype for tensor in _tensors(graph))


def _tensors(graph: fx.Graph) -> Iterator[torch.Tensor]:
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            yield value


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))
