"""Plain values as YAML text, for programs that rather read that than JSON."""

from typing import Any

import yaml


def to_yaml(value: Any) -> str:
    """Return lists, mappings, texts and numbers as YAML, keys in the order they have.

    >>> to_yaml([{"name": "paris", "nodes": 3}])
    '- name: paris\\n  nodes: 3\\n'
    """
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
