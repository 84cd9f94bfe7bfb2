"""A process that copies one topic until it is stopped, killed or superseded.

python -m tests.faults.worker SOURCE TARGET TOPIC LEDGER PARTITIONS [SECONDS]
Ends by itself when SECONDS are given and every partition is at the source's end; says what it did.
"""

import sys
from datetime import timedelta
from functools import partial

from heliograph.copy.opening import Ends, Opened, open_all
from heliograph.copy.quarantine import Made
from heliograph.copy.stream import Stream
from heliograph.errors import Superseded
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Loop
from heliograph.model.configs import NewTopic
from heliograph.model.topics import Partition


def within(seconds: float) -> Deadline:
    return Deadline.after(timedelta(seconds=seconds))


def main() -> int:
    source_at, target_at, topic, ledger, partitions, *seconds = sys.argv[1:]
    loop = Loop()
    source = Cluster(parse("source", {"bootstrap.servers": source_at}), "source", loop)
    target = Cluster(parse("target", {"bootstrap.servers": target_at}), "target", loop)
    ends = Ends("faults", source, target, ledger)
    parts = [Partition(topic, number) for number in range(int(partitions))]
    source.describe([topic], within(30))
    target.describe([topic, ledger], within(30))
    opened = open_all(ends, {part: part for part in parts}, within(60))
    ready = []
    for part, result in opened.items():
        if isinstance(result, Opened):
            ready.append(result)
            print(f"opened {part} at {result.ledger.source_next}", flush=True)
        else:
            print(f"not opened {part}: {result!r}", flush=True)
            if not isinstance(result, Superseded):
                return 1
    if not ready or (seconds and len(ready) < len(parts)):
        return 0  # a rival has them; whoever started this one starts another
    stream = Stream(ends, make_topic=partial(make_topic, target))
    for one in ready:
        stream.add(one)
    return copy(stream, source, parts, seconds)


def make_topic(target: Cluster, topic: str, made: Made) -> None:
    """Make a quarantine topic unless it is there; blocking, which is fine here."""
    with Admin(target.settings, target.name) as admin:
        if not admin.topics.describe([topic]):
            admin.topics.create(NewTopic(topic, 1, 1))
    made(target.describe([topic], within(30)).topics[topic].topic_id)


def copy(stream: Stream, source: Cluster, parts: list[Partition], seconds: list[str]) -> int:
    deadline = within(float(seconds[0]) if seconds else 600)
    wanted = list_offsets(source, dict.fromkeys(parts, LATEST), within(30)) if seconds else {}
    while not deadline.passed:
        stream.step()
        if failures := stream.take_failures():
            for part, error in failures:
                print(f"stopped {part}: {error!r}", flush=True)
            return 0 if all(isinstance(error, Superseded) for _, error in failures) else 1
        if wanted and all(stream.parts[part].position >= wanted[part] for part in parts):
            stream.finish(within(30))
            print("done", flush=True)
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
