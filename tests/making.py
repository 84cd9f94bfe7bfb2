"""Makes what tests need on a cluster, with librdkafka's admin client."""

import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic


def create_topic(
    bootstrap: str,
    topic: str,
    partitions: int = 1,
    *,
    replicas: int = 1,
    config: dict[str, str] | None = None,
) -> None:
    """Create a topic and wait for the controller's word that it exists.

    It keeps its records for ever: with a retention by time a broker drops old timestamps at will.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, partitions, replicas, config={"retention.ms": "-1"} | (config or {}))
    for done in admin.create_topics([new], operation_timeout=10).values():
        done.result(15)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic and wait for the controller's word that it is gone, and until it is.

    With ZooKeeper it is deleted later, and its name is taken until then.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_topics([topic], operation_timeout=10).values():
        done.result(15)
    deadline = time.monotonic() + 20
    while not _is_free(admin, topic):
        assert time.monotonic() < deadline, f"{topic} is still there"


def _is_free(admin: AdminClient, topic: str) -> bool:
    (asked,) = admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True).values()
    try:
        asked.result(15)
    except KafkaException as refused:
        assert refused.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS, refused
        return False
    return True
