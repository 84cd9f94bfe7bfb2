"""Links by name: those of the file, and the opposite direction of each."""

from pathlib import Path

import pytest

from heliograph.errors import ConfigError, NoSuchLink
from heliograph.links.setup import opposite
from heliograph.wiring import load_config, setups

LINKS = """
clusters:
  paris: {bootstrap.servers: "127.0.0.1:1"}
  dublin: {bootstrap.servers: "127.0.0.1:2"}
links:
  west: {source: paris, target: dublin, topics: [orders], naming: prefix, sync: {deletes: 5s}}
"""


def written(folder: Path, more: str = "") -> Path:
    file = folder / "heliograph.yaml"
    file.write_text(LINKS + more)
    return file


def test_the_opposite_direction_of_a_link_is_known_by_its_name(tmp_path: Path) -> None:
    config = load_config(written(tmp_path))
    (back,) = setups(config, ["west-reverse"])
    link = back.link
    assert (link.name, link.source, link.target) == ("west-reverse", "dublin", "paris")
    assert link.topics == () and link.sync.deletes is None and link.sync.configs is None
    assert back.source_settings == setups(config)[0].target_settings
    assert opposite(back).link.name == "west" and opposite(opposite(back)).link == link


def test_all_links_are_those_of_the_file(tmp_path: Path) -> None:
    config = load_config(written(tmp_path))
    assert [one.link.name for one in setups(config)] == ["west"]
    with pytest.raises(NoSuchLink):
        setups(config, ["east-reverse"])


def test_a_link_may_not_have_the_name_of_an_opposite_direction(tmp_path: Path) -> None:
    more = "  west-reverse: {source: dublin, target: paris, topics: [more], naming: prefix}\n"
    with pytest.raises(ConfigError, match="is what the opposite direction of west is called"):
        load_config(written(tmp_path, more))
