"""Which files are the user's. Imports only what Python has loaded by itself: a process that ends asks too."""

import os

STDLIB = os.path.dirname(os.__file__)
OURS = __file__.rsplit("/", 2)[0]


def is_the_users(name: str) -> bool:
    """A file that the user could edit: no library, no generated code, nothing of ours."""
    if name.startswith("<"):
        return name.startswith("<ipython") or name in ("<string>", "<stdin>")
    if "site-packages" in name or "dist-packages" in name:
        return False
    return not name.startswith((STDLIB, OURS)) and "/torchinductor_" not in name
