"""`python -m compdbg`. Python puts the current directory first on the path; what is there is the user's."""

import sys

if not sys.flags.safe_path:
    sys.path.pop(0)

from compdbg.cli.main import main

raise SystemExit(main())
