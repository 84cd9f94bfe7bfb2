"""Groups of a running link: not looked at where the file says so."""

from contextlib import closing

from heliograph.control.group_watch import GroupWatch
from heliograph.kafka.transport import Loop
from heliograph.wiring import config_of, setups

FILE = """
clusters:
  a: {bootstrap.servers: "127.0.0.1:1"}
  b: {bootstrap.servers: "127.0.0.1:2"}
links:
  a-b: {source: a, target: b, topics: [orders], sync: {groups: off}}
"""


def test_a_link_with_groups_off_never_looks_at_them() -> None:
    (setup,) = setups(config_of(FILE, "test"))
    with closing(Loop()) as loop, closing(GroupWatch(setup, loop)) as watch:
        assert watch.step() is None and watch.last() is None
        loop.turn(0.05)
        assert watch.step() is None, "a pass would have failed: nothing listens there"
