"""Small pieces of Markdown for the generated pages."""

import re
from collections.abc import Iterable


def cell(text: str) -> str:
    """Keep a text within its cell: a bar would end it, and `<` begin a tag."""
    return re.sub(r"([|<])", r"\\\1", text)


def table(heads: tuple[str, ...], rows: Iterable[Iterable[str]]) -> str:
    """Return a table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
