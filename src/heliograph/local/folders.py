"""Where Heliograph keeps files on this machine: one cache, one folder of state."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder of things that can be had again, such as Kafka's jars."""
    return _choose("HELIOGRAPH_CACHE", "XDG_CACHE_HOME", Path(".cache"))


def state_folder() -> Path:
    """Return the folder that remembers which local clusters were started from the shell."""
    return _choose("HELIOGRAPH_STATE", "XDG_STATE_HOME", Path(".local", "state"))


def _choose(own: str, shared: str, under_home: Path) -> Path:
    if os.environ.get(own):
        return Path(os.environ[own]).expanduser().absolute()
    if os.environ.get(shared):
        return Path(os.environ[shared]).expanduser().absolute() / "heliograph"
    return Path.home() / under_home / "heliograph"
