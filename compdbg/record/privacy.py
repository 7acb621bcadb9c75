"""What is never recorded: environment values outside a list, and values of secret options.

Runs at the start of every process, before the program's first import: string methods only.
"""

_SHOWN = ("TORCH", "PYTORCH", "TRITON", "VLLM", "COMPDBG", "CUDA", "NCCL", "OMP")
_SHOWN_EXACTLY = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
_SECRET_NAMES = ("KEY", "TOKEN", "PASSWORD", "SECRET", "CREDENTIAL")
_SECRET_ENDINGS = ("key", "token", "password", "secret")
HIDDEN = "<hidden>"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def safe_environment(environment: "Mapping[str, str]") -> dict[str, str]:
    """The variables that steer torch, Triton, vLLM and us; none that name a secret."""
    return {name: text(value) for name, value in environment.items() if _is_shown(name)}


def safe_argv(argv: "Sequence[str]") -> list[str]:
    """`argv` with the values of `--*key`, `--*token`, `--*password` (and `name.key=`) hidden."""
    safe: list[str] = []
    hide_next = False
    for word in argv:
        if hide_next:
            safe.append(HIDDEN)
            hide_next = False
            continue
        name, equals, _ = word.partition("=")
        secret = _is_secret_option(name)
        safe.append(f"{text(name)}={HIDDEN}" if secret and equals else text(word))
        hide_next = secret and not equals and word.startswith("-")
    return safe


def text(value: str) -> str:
    """Any text of the program as one that UTF-8 can hold: bytes that are none become `\\udcff`."""
    return value.encode("utf-8", "backslashreplace").decode()


def _is_shown(name: str) -> bool:
    shown = name in _SHOWN_EXACTLY or name.startswith(_SHOWN)
    return shown and not any(word in name.upper() for word in _SECRET_NAMES)


def _is_secret_option(name: str) -> bool:
    plain = name.lstrip("-").lower().replace("-", "_")
    return plain.endswith(_SECRET_ENDINGS) and all(c.isalnum() or c in "_." for c in plain)
