"""Starts recording in an interpreter that has no compdbg of its own; first on PYTHONPATH, once.

Takes itself out again and lets the `sitecustomize` that it stands before, if any, become this
module; so `sys.path` and `sys.modules` are the program's own. compdbg is loaded by its place:
the folder that holds it may hold packages of another environment, and must not be searched.
"""

import os
import sys
from importlib.machinery import PathFinder

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))


def _start():
    from importlib.util import module_from_spec, spec_from_file_location

    if "compdbg" not in sys.modules:
        spec = spec_from_file_location(
            "compdbg", os.path.join(_PACKAGE, "__init__.py"), submodule_search_locations=[_PACKAGE]
        )
        sys.modules["compdbg"] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules["compdbg"])
    from compdbg.launch.child import start_from_environment

    start_from_environment(installed=False)


def _become_the_next(module):
    """Run the `sitecustomize` behind us as if it had been found first, or be as if there were none."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is None:
        raise ImportError("no sitecustomize but ours", name="sitecustomize")
    names = {
        "__name__": "sitecustomize", "__doc__": None, "__package__": "", "__builtins__": __builtins__,
        "__file__": spec.origin, "__cached__": spec.cached, "__loader__": spec.loader, "__spec__": spec,
    }  # fmt: skip
    module.__dict__.clear()
    module.__dict__.update(names)
    spec.loader.exec_module(module)


try:
    _start()
except Exception as error:
    print(f"compdbg: not recording this process: {error}", file=sys.stderr)
_become_the_next(sys.modules["sitecustomize"])
