"""Whatever a file holds, the answer is settings or a ConfigError."""

import contextlib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from heliograph.config.load import load
from heliograph.config.reference import example, reference
from heliograph.errors import ConfigError

WORDS = sorted({step for row in reference() for step in row.path.split(".")})
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.dates()
    | st.datetimes()
    | st.binary(max_size=5)
    | st.text(max_size=8)
    | st.sampled_from(["off", "5s", "50MB", "stop", "paris", "{topic}", ".*", "(", "<<", "="])
)
keys = st.sampled_from([*WORDS, "paris", "a", "<<", "="]) | st.text(max_size=5) | st.integers()
structures = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=20,
)


def load_or_refuse(text: str) -> None:
    with contextlib.suppress(ConfigError):
        load(text, check_cluster=lambda cluster: [f"{key} is odd" for key in cluster.properties])


@given(structures)
def test_any_structure_loads_or_is_refused(structure: object) -> None:
    load_or_refuse(yaml.safe_dump(structure, allow_unicode=True))


@given(
    st.dictionaries(st.sampled_from(WORDS), structures, max_size=8),
    st.dictionaries(st.sampled_from(WORDS), structures, max_size=3),
)
def test_any_link_and_cluster_load_or_are_refused(
    link: dict[str, object], cluster: dict[str, object]
) -> None:
    links = {"a": link, "b": {"source": "paris", "target": "x", "topics": ["orders"]}}
    clusters = {"paris": cluster, "x": {}}
    load_or_refuse(yaml.safe_dump({"clusters": clusters, "links": links}))


@given(st.text())
def test_any_text_loads_or_is_refused(text: str) -> None:
    load_or_refuse(text)


@given(st.text(st.sampled_from("ab:-[]{}&*!|>'\"%@`#,?\n\t \\Ux0=<~"), max_size=40))
def test_any_punctuation_loads_or_is_refused(text: str) -> None:
    load_or_refuse(text)


@given(st.data())
def test_a_damaged_example_loads_or_is_refused(data: st.DataObject) -> None:
    text = example(minimal=True)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    middle = data.draw(st.text("ab:-[]{}&*!\n ", max_size=5))
    load_or_refuse(text[:start] + middle + text[end:])


BOMB = "".join(f"  x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, 30))
MERGES = "".join(f"  m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 9)}]}}\n" for n in range(1, 30))


@pytest.mark.parametrize(
    "text",
    [
        "&a [*a]",
        "&a {<<: *a}",
        "clusters: &a {b: *a}\nlinks: *a\n",
        "links: {a: {transform: &t [{where: *t}]}}",
        "links: {a: {transform: [{where: &t [*t]}]}}",
        f"links:\n  x0: &x0 y\n{BOMB}  z: {{transform: [{{where: *x29}}], hooks: *x29}}\n",
        f"links:\n  m0: &m0 {{a: b}}\n{MERGES}  z: *m29\n",
        f"clusters:\n  x0: &x0 y\n{BOMB}  z: {{a: *x29}}\n",
        "clusters: {a: {b: " + "[" * 200 + "]" * 200 + "}}",
    ],
)
@pytest.mark.timeout(20)
def test_aliases_can_neither_loop_nor_explode(text: str) -> None:
    with pytest.raises(ConfigError):
        load(text)
