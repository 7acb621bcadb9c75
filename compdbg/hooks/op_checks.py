"""One call of a custom op checked: its undeclared inputs before and after, its fake beside its results."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

COPIED_BYTES = 64 << 20
"""A larger input is not copied: a sum of its bits stands for it."""


_FAKES = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")


class Wrong(NamedTuple):
    """What an op does other than it says; the fields of `OpWrong`."""

    fault: str
    subject: str
    declared: str
    seen: str


class Argument(NamedTuple):
    name: str
    tensor: Any
    writes: bool
    """The schema says that the op writes to it."""
    aliased: bool
    """The schema says that an output may share its memory."""


class Kept(NamedTuple):
    """What an undeclared input was before the call: a copy of its bits, or their sum."""

    shape: tuple[int, ...]
    bits: Any


def arguments_of(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Argument] | None:
    """The tensors of a call, lists of tensors taken apart; None if one is none of torch's plain ones."""
    found = []
    for index, declared in enumerate(schema.arguments):
        value = args[index] if index < len(args) else kwargs.get(declared.name)
        info = declared.alias_info
        for number, tensor in enumerate(value if isinstance(value, (list, tuple)) else [value]):
            if not _is_tensor(tensor):
                continue
            if not _is_plain(tensor):
                return None
            name = f"{declared.name}[{number}]" if isinstance(value, (list, tuple)) else declared.name
            found.append(Argument(name, tensor, bool(info and info.is_write), info is not None))
    return found


def described(arguments: list[Argument]) -> str:
    return ", ".join(f"{a.name} {_dtype(a.tensor)}{list(a.tensor.shape)}" for a in arguments)


def keep(arguments: list[Argument]) -> dict[str, Kept]:
    """What the op must leave as it is: undeclared inputs that share no memory with a declared one."""
    written = {storage for a in arguments if a.writes and (storage := _storage(a.tensor))}
    return {
        a.name: Kept(tuple(a.tensor.shape), bits(a.tensor))
        for a in arguments
        if not a.writes and a.tensor.numel() and _storage(a.tensor) not in written
    }


def writes(arguments: list[Argument], before: dict[str, Kept]) -> Iterator[Wrong]:
    """Undeclared inputs that are not what they were."""
    torch = sys.modules["torch"]
    for argument in arguments:
        kept = before.get(argument.name)
        if kept is None:
            continue
        if tuple(argument.tensor.shape) != kept.shape:
            yield Wrong("undeclared-write", argument.name, "read only", "resized")
        elif not torch.equal(bits(argument.tensor), kept.bits):
            yield Wrong("undeclared-write", argument.name, "read only", "written to")


def aliases(schema: Any, arguments: list[Argument], result: Any) -> Iterator[Wrong]:
    """Outputs that share memory with an input where the schema says that they are new."""
    storages = {_storage(a.tensor): a for a in arguments if not a.aliased and _storage(a.tensor)}
    for number, (output, declared) in enumerate(zip(_outputs(result), schema.returns, strict=False)):
        if declared.alias_info is None and _is_tensor(output) and (found := storages.get(_storage(output))):
            name = _output_name(number, len(schema.returns))
            seen = "the input itself" if output is found.tensor else "a view of the input"
            yield Wrong("undeclared-alias", found.name, f"{name} is new memory", f"{name} is {seen}")


def has_fakes() -> bool:
    """Whether the program has what fakes run in: nothing is imported for a check."""
    return all(name in sys.modules for name in _FAKES)


def run_fake(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any] | None:
    """The op's fake on inputs like these: fake inputs and outputs; None where that can't be done."""
    fake_tensor, shapes = (sys.modules[name] for name in _FAKES)
    mode = fake_tensor.FakeTensorMode(shape_env=shapes.ShapeEnv())
    given: list[Any] = []

    def faked(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(faked(item) for item in value)
        if not _is_tensor(value):
            return value
        given.append(mode.from_tensor(value.detach(), static_shapes=True))
        return given[-1]

    inputs = faked(args), {name: faked(value) for name, value in kwargs.items()}
    with mode, _quiet(fake_tensor.log):
        try:
            return given, op(*inputs[0], **inputs[1])
        except Exception:  # no fake, or one that needs what is not here: a compile says so itself
            return None


def fake_differs(schema: Any, arguments: list[Argument], result: Any, fake: Any) -> Iterator[Wrong]:
    """Where the fake's outputs are not as the op's."""
    given, faked = fake
    real, told = _outputs(result), _outputs(faked)
    if len(real) != len(told):
        yield Wrong("outputs", "the results", f"{len(told)} results", f"{len(real)} results")
        return
    inputs = {_fake_storage(g): a.name for g, a in zip(given, arguments, strict=False)}
    for number, (output, fake_output) in enumerate(zip(real, told, strict=True)):
        name = _output_name(number, len(real))
        if _is_tensor(output) and _is_tensor(fake_output):
            yield from _tensor_differs(name, output, fake_output)
            declared = number < len(schema.returns) and schema.returns[number].alias_info is not None
            shared = inputs.get(_fake_storage(fake_output))
            if not declared and shared is not None and _storage(output) not in _storages(arguments):
                yield Wrong("aliasing", name, f"shares memory with {shared}", "new memory")
        elif _is_tensor(output) != _is_tensor(fake_output):
            yield Wrong("outputs", name, _kind(fake_output), _kind(output))


def _tensor_differs(name: str, real: Any, fake: Any) -> Iterator[Wrong]:
    if real.dtype != fake.dtype:
        yield Wrong("dtype", name, _dtype(fake), _dtype(real))
    if real.device.type != fake.device.type:
        yield Wrong("device", name, fake.device.type, real.device.type)
    if real.dim() != fake.dim() or any(
        isinstance(told, int) and told != size for size, told in zip(real.shape, fake.shape, strict=True)
    ):
        yield Wrong("shape", name, str(list(fake.shape)), str(list(real.shape)))
    elif _strides_differ(real, fake):
        yield Wrong("strides", name, str(tuple(fake.stride())), str(tuple(real.stride())))


def _strides_differ(real: Any, fake: Any) -> bool:
    """A stride matters only where there is a second element to reach."""
    if real.numel() == 0 or not _is_strided(real) or not _is_strided(fake):
        return False
    steps = zip(real.shape, real.stride(), fake.stride(), strict=True)
    return any(size > 1 and isinstance(told, int) and told != step for size, step, told in steps)


def bits(tensor: Any) -> Any:
    """A copy of a tensor's bits, or for a large one their sum: equal only for equal values."""
    torch = sys.modules["torch"]
    plain = tensor.detach()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    if plain.numel() * plain.element_size() <= COPIED_BYTES:
        return plain.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[plain.element_size()]
    return plain.view(words).sum(dtype=torch.int64).reshape(1)


@contextlib.contextmanager
def _quiet(log: logging.Logger) -> Iterator[None]:
    """torch logs a fake that raises, with its stack: not ours, which the program did not ask for."""
    thread = threading.get_ident()

    def elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != thread

    log.addFilter(elsewhere)
    try:
        yield
    finally:
        log.removeFilter(elsewhere)


def _outputs(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]


def _output_name(number: int, count: int) -> str:
    return "the result" if count == 1 else f"result {number}"


def _is_tensor(value: Any) -> bool:
    return isinstance(value, sys.modules["torch"].Tensor)


def _is_plain(tensor: Any) -> bool:
    torch = sys.modules["torch"]
    known = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    return type(tensor) in known and _is_strided(tensor) and tensor.device.type != "meta"


def _is_strided(tensor: Any) -> bool:
    torch = sys.modules["torch"]
    return bool(tensor.layout is torch.strided) and not tensor.is_quantized and not tensor.is_neg()


def _storage(tensor: Any) -> int:
    """The address of a tensor's memory; 0 where it has none."""
    if not _is_plain(tensor) or not tensor.untyped_storage().nbytes():
        return 0
    return int(tensor.untyped_storage().data_ptr())


def _storages(arguments: list[Argument]) -> set[int]:
    return {_storage(a.tensor) for a in arguments} - {0}


def _fake_storage(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _kind(value: Any) -> str:
    return "None" if value is None else "a tensor" if _is_tensor(value) else f"an {type(value).__name__}"


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Whatever runs inside is seen by no mode of the program's, and by no autograd."""
    torch = sys.modules["torch"]
    modes = sys.modules["torch.utils._python_dispatch"]
    with modes._disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        yield
