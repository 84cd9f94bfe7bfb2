"""Policies: what a link does where the source or the target leaves it a choice. Pure."""

from dataclasses import dataclass
from typing import Literal

Start = Literal["earliest", "latest"] | int
"""Where a partition begins that was never mirrored; a number is a time, in epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class Policies:
    """One link's choices. Whatever is skipped, restarted or refused is written down.

    ``is_shared`` says that others may write to the mirrors as well, as in active-active meshes.
    Otherwise a record of somebody else stops the partition. ``origin`` says whether records are
    copied that links brought to the source; ``inbound`` are links that are known to do so.
    """

    on_gap: Literal["stop", "skip"] = "stop"
    on_recreate: Literal["stop", "restart"] = "stop"
    on_refuse: Literal["stop", "quarantine", "skip"] = "quarantine"
    is_shared: bool = False
    origin: Literal["any", "local"] = "any"
    inbound: tuple[str, ...] = ()
