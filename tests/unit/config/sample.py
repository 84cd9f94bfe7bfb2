"""A small configuration without mistakes, for tests to add to."""

CLUSTERS = """\
clusters:
  paris: {bootstrap.servers: "paris-1:9092"}
  dublin: {bootstrap.servers: "dublin-1:9092"}
"""
# What is added stands on line 10.
BASE = f"""\
{CLUSTERS}
links:
  a:
    source: paris
    target: dublin
    topics: [orders]
"""
