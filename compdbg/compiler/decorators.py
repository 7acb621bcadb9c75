"""`@support_torch_compile`: a class or method that compiles itself on its first call.

The decorated method is an ordinary function, so that `nn.Module.__call__`, hooks and subclasses
work as always. What was asked stands in its `_compdbg_compile`; the undecorated function is
beside it, as `forward_eager`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, overload

import torch

from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.dynamic_dims import DimSpec, DynamicArgDims, asked_dims
from compdbg.compiler.effective import current_config
from compdbg.compiler.wrapper import TorchCompileWithNoGuardsWrapper

T = TypeVar("T", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
EnableIf = Callable[[CompilationConfig], bool]
_IGNORED = "_compdbg_ignore_torch_compile"
_BOUND = "_compdbg_config"


class Asked:
    """What a decorator was told of one method; `method._compdbg_compile`."""

    def __init__(
        self, function: Callable[..., Any], dims: dict[str, DimSpec], enable_if: EnableIf | None
    ) -> None:
        self.function = function
        self.dynamic_arg_dims = dims
        self.enable_if = enable_if

    def __repr__(self) -> str:
        return f"<support_torch_compile of {self.function.__qualname__}: {self.dynamic_arg_dims}>"


@overload
def support_torch_compile(target: T) -> T: ...
@overload
def support_torch_compile(
    *, dynamic_arg_dims: DynamicArgDims | None = None, enable_if: EnableIf | None = None
) -> Callable[[F], F]: ...


def support_torch_compile(
    target: Any = None,
    *,
    dynamic_arg_dims: DynamicArgDims | None = None,
    enable_if: EnableIf | None = None,
) -> Any:
    """Compile the `forward` of a class, or a method, when it is first called.

    Args:
        dynamic_arg_dims: argument name -> the dimension, or dimensions, of it that vary. Left out:
            dimension 0 of every argument annotated as a tensor or a container of tensors.
        enable_if: called with the configuration that an instance is bound to; False: stays eager.

    Raises:
        ValueError: an argument that is not there, or nothing to go by.
    """

    def decorate(what: Any) -> Any:
        if isinstance(what, type):
            return _decorate_class(what, dynamic_arg_dims, enable_if)
        if inspect.isfunction(what):
            return _Method(what, Asked(what, asked_dims(what, dynamic_arg_dims), enable_if))
        raise TypeError(f"support_torch_compile decorates classes and methods, not {what!r}")

    return decorate if target is None else decorate(target)


def ignore_torch_compile(cls: T) -> T:
    """Instances of this class stay eager, whatever a base class asks for; its submodules do not."""
    setattr(cls, _IGNORED, True)
    return cls


def _decorate_class(cls: type, dims: DynamicArgDims | None, enable_if: EnableIf | None) -> type:
    function = getattr(cls, "forward", None)
    if not inspect.isfunction(function):
        raise TypeError(f"{cls.__name__} has no forward to compile")
    if "_compdbg_compile" in vars(function) and "forward" in vars(cls):
        return cls
    function = inspect.unwrap(function)
    _install(cls, "forward", Asked(function, asked_dims(function, dims), enable_if))
    setattr(cls, _IGNORED, False)
    return cls


class _Method:
    """Stands for a decorated method until its class is made, then puts the function in its place."""

    def __init__(self, function: Callable[..., Any], asked: Asked) -> None:
        functools.update_wrapper(self, function)
        self._asked = asked

    def __set_name__(self, owner: type, name: str) -> None:
        _install(owner, name, self._asked)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"{self._asked.function.__qualname__} is no method: support_torch_compile needs a class"
        )


def _install(owner: type, name: str, asked: Asked) -> None:
    setattr(owner, name, _compiled_method(name, asked))
    setattr(owner, f"{name}_eager", asked.function)
    _bind_when_constructed(owner)


def _compiled_method(name: str, asked: Asked) -> Callable[..., Any]:
    eager = asked.function
    slot = f"_compdbg_compiled_{name}_{id(asked):x}"  # a base class may have a decorated method of this name

    @functools.wraps(eager)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return eager(self, *args, **kwargs)
        wrapper = self.__dict__.get(slot)
        if wrapper is None:
            wrapper = _wrapper(self, slot, asked)
        return wrapper(self, *args, **kwargs)

    method._compdbg_compile = asked  # type: ignore[attr-defined]
    return method


def _wrapper(instance: Any, slot: str, asked: Asked) -> TorchCompileWithNoGuardsWrapper:
    config = instance.__dict__.get(_BOUND) or current_config()
    why_not = None
    if getattr(type(instance), _IGNORED, False):
        why_not = f"{type(instance).__name__} is decorated with ignore_torch_compile"
    elif asked.enable_if is not None and not asked.enable_if(config):
        why_not = "enable_if said no"
    wrapper = TorchCompileWithNoGuardsWrapper(
        asked.function, asked.dynamic_arg_dims, config, owner=type(instance), why_not=why_not
    )
    instance.__dict__[slot] = wrapper
    return wrapper


def _bind_when_constructed(owner: type) -> None:
    """Instances remember the configuration that was current when they were made."""
    construct = owner.__init__  # type: ignore[misc]
    if hasattr(construct, _BOUND):
        return

    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        self.__dict__.setdefault(_BOUND, current_config())
        construct(self, *args, **kwargs)

    setattr(__init__, _BOUND, True)
    owner.__init__ = __init__  # type: ignore[misc]
