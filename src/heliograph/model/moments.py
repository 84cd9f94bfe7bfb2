"""Moments: the one form in which times are shown, in UTC, to the millisecond. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(time_ms: int) -> str:
    """Return a time as it is shown.

    >>> moment(1_767_225_600_123)
    '2026-01-01T00:00:00.123Z'
    """
    found = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return found.replace("+00:00", "Z")


def stamp(time_ms: int) -> str:
    """Return a time as part of a name: it can be typed, and sorts.

    >>> stamp(1_767_225_600_123)
    '20260101T000000.123Z'
    """
    return moment(time_ms).replace("-", "").replace(":", "")
