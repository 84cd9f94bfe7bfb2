"""Keeps kafka-python's chatter out of every log.

Its DEBUG lines hold SASL tokens and payloads. Setting the root logger to DEBUG, ours to do with
``-v`` and an embedding application's right, must not turn them on.
"""

import logging

_LOUDEST = logging.WARNING


def hush() -> None:
    """Hold the whole ``kafka`` logger tree at WARNING; called when this package is imported."""
    tree = logging.getLogger("kafka")
    if tree.level < _LOUDEST:
        tree.setLevel(_LOUDEST)
