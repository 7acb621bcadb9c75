"""compdbg: a debugger for `torch.compile`, and a full compiler pipeline to debug with it.

`record()` observes a block of the running program; `load()` opens a recorded run. Both are
imported on first use, so that `import compdbg` in somebody's program costs next to nothing.

PYTEST_DONT_REWRITE: pytest rewrites the packages of its plugins, and warns of one that is imported
already, as this one is in a pytest that is itself recorded.
"""

TYPE_CHECKING = False  # importing `typing` would load a dozen modules before the program's own
if TYPE_CHECKING:
    from compdbg.model.run import load
    from compdbg.record.inprocess import record

__all__ = ["__version__", "load", "record"]
__version__ = "0.1.0"

_HOME = {"record": "compdbg.record.inprocess", "load": "compdbg.model.run"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'compdbg' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOME[name]), name)
