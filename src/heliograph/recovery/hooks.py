"""Hooks: commands of the user's, run around a verb; what they say goes into the timeline.

A command is given to the shell with the link, the verb and the topics in its environment. It is
never quoted, since it may hold a secret: a hook is named by its moment and number.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from datetime import timedelta

from heliograph.errors import RecoveryError
from heliograph.kafka import clock

_MOST_LINES = 40
_MOST_LETTERS = 4000


def run_hooks(
    moment: str, commands: Sequence[str], about: Mapping[str, str], within: timedelta | None
) -> list[str]:
    """Run the commands of a moment in order, each for ``within`` at most; return what they said.

    The first that fails, or takes too long, raises; those after it are not run.
    """
    said: list[str] = []
    for number, command in enumerate(commands, 1):
        name, began_s = f"{moment} {number}", clock.now_s()
        code, output = _run(command, about, within)
        said += [f"{name}: {line}" for line in output]
        if code is None:
            assert within is not None, "without a limit, none is ended"
            limit = f"{within.total_seconds():g} s (hook_timeout)"
            raise _failed(name, f"did not end within {limit}", output)
        if code:
            raise _failed(name, f"ended with exit code {code}", output)
        said.append(f"{name}: done after {clock.now_s() - began_s:.1f} s")
    return said


def _run(
    command: str, about: Mapping[str, str], within: timedelta | None
) -> tuple[int | None, list[str]]:
    """Return the exit code, None for one that had to be ended, and the last lines it wrote."""
    variables = {f"HELIOGRAPH_HOOK_{name.upper()}": value for name, value in about.items()}
    process = subprocess.Popen(
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **variables},
        start_new_session=True,  # so that whatever it started ends with it
    )
    try:
        output, _ = process.communicate(timeout=within.total_seconds() if within else None)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        code = None
    text = output.decode(errors="replace")[-_MOST_LETTERS:]
    return code, text.splitlines()[-_MOST_LINES:]


def _failed(name: str, how: str, output: Sequence[str]) -> RecoveryError:
    said = f" It said: {' | '.join(output[-3:])}." if output else " It said nothing."
    return RecoveryError(f"the hook {name} {how}.{said}")
