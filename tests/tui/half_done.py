"""Work that comes to its half, and no further."""

import signal

from compdbg.views.explorer.apart import tell

if __name__ == "__main__":
    tell("half of it", 0.5)
    signal.pause()
