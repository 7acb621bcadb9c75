"""`FusionPass`: a pattern, what replaces it, inputs to trace both with, and the check that they agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import torch
from msgspec import Struct
from torch import fx

from compdbg.compiler.canonical import canonical
from compdbg.compiler.code_hash import code_hash
from compdbg.compiler.passes.inductor_pass import InductorPass, enable_fake_mode, hash_dict


class FusionPattern(Struct, frozen=True, kw_only=True):
    """One form of what is fused. `pattern` and `replacement` take the same tensors."""

    pattern: Callable[..., Any]
    replacement: Callable[..., Any]
    inputs: Callable[[], Sequence[torch.Tensor]]
    """Makes example tensors of the dtypes and ranks that the pattern is for."""
    extra_check: Callable[[Any], bool] | None = None
    """Given torch's Match: whether to replace it. Its name is what a refusal is reported by."""
    scalar_workaround: dict[str, float | int] | None = None


class Disagreement(Struct, frozen=True):
    """Where a replacement is not what it replaces."""

    pattern: str
    what: str
    """`dtype`, `shape`, `strides`, `values` or `outputs`."""
    wanted: str
    found: str


class FusionPass(InductorPass):
    """Replaces every match of its patterns.

    A subclass has either `pattern`, `replacement` and `inputs`, or `patterns` for several forms
    (another epsilon, another dtype), which are tried in order.
    """

    def __init__(self) -> None:
        self._matched_count = 0
        self._matcher: Any = None

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

    def __call__(self, graph: fx.Graph) -> None:
        if self._matcher is None:
            self._matcher = self._register()
        self._matched_count = self._matcher.apply(graph)

    def uuid(self) -> str:
        forms = [msgspec.structs.asdict(form) for form in self.patterns()]
        return hash_dict({"pass": super().uuid(), "forms": canonical(forms, code_hash)})

    @enable_fake_mode
    def _register(self) -> Any:
        from torch._inductor.pattern_matcher import PatternMatcherPass, register_replacement

        named: type = type(self.name, (PatternMatcherPass,), {})
        matcher = named(pass_name=self.name)
        for form in self.patterns():
            more: dict[str, Any] = {}
            if form.extra_check is not None:
                more["extra_check"] = form.extra_check
            register_replacement(
                form.pattern,
                form.replacement,
                list(form.inputs()),
                _trace,
                matcher,
                scalar_workaround=form.scalar_workaround,
                **more,
            )
        return matcher

    def disagreements(self, device: str = "cpu", tolerance: float = 1e-2) -> list[Disagreement]:
        """Run each pattern and its replacement on the same random inputs, and compare."""
        found: list[Disagreement] = []
        for form in self.patterns():
            scalars = form.scalar_workaround or {}
            inputs = [_random_like(tensor, device) for tensor in form.inputs()]
            wanted = form.pattern(*(t.clone() for t in inputs), **scalars)
            given = form.replacement(*(t.clone() for t in inputs), **scalars)
            name = getattr(form.pattern, "__name__", "pattern")
            found += _compare(name, _outputs(wanted), _outputs(given), tolerance)
        return found


def _trace(*args: Any, **kwargs: Any) -> fx.GraphModule:
    """Trace a pattern to what a graph holds when fusions run: views are reshapes by then."""
    from torch._inductor.fx_passes.post_grad import view_to_reshape
    from torch._inductor.pattern_matcher import fwd_only

    module = fwd_only(*args, **kwargs)
    view_to_reshape(module)
    return module


def _random_like(tensor: torch.Tensor, device: str) -> torch.Tensor:
    if tensor.dtype.is_floating_point:
        return torch.randn(tensor.shape, device=device).to(tensor.dtype)
    return torch.zeros(tensor.shape, dtype=tensor.dtype, device=device)


def _outputs(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _compare(name: str, wanted: list[Any], given: list[Any], tolerance: float) -> Iterator[Disagreement]:
    if len(wanted) != len(given):
        yield Disagreement(name, "outputs", str(len(wanted)), str(len(given)))
        return
    for a, b in zip(wanted, given, strict=True):
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            continue
        for what, x, y in (
            ("dtype", a.dtype, b.dtype),
            ("shape", list(a.shape), list(b.shape)),
            ("strides", a.stride(), b.stride()),
        ):
            if x != y:
                yield Disagreement(name, what, str(x), str(y))
                break
        else:
            difference = (a.float() - b.float()).abs().max().item() if a.numel() else 0.0
            if not difference <= tolerance:
                yield Disagreement(name, "values", f"at most {tolerance:g} apart", f"{difference:g}")
