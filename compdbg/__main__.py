"""`python -m compdbg`, which puts the current directory first on the path: an `enum.py` there is the user's."""

import sys

if not sys.flags.safe_path:
    sys.path.pop(0)

from compdbg.cli.main import main  # noqa: E402

raise SystemExit(main())
