"""Crash points: named places where a test lets the process die, as if its machine had.

Nothing happens unless the environment names a point. Then the process ends itself with SIGKILL
when it passes there, by default the first time: no handler runs and no buffer is flushed.

    HELIOGRAPH_CRASH_POINT=C7 HELIOGRAPH_CRASH_AFTER=3      dies at the third passing of C7
"""

import os
import signal

_point = os.environ.get("HELIOGRAPH_CRASH_POINT") or None
_passings_left = int(os.environ.get("HELIOGRAPH_CRASH_AFTER", "1"))


def point(name: str) -> None:
    """Pass a crash point."""
    global _passings_left
    if name != _point:
        return
    _passings_left -= 1
    if _passings_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
