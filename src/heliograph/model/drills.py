"""Drills: a failover rehearsed on scratch topics. What is sampled, what came of it, the verdict.

Pure. N. A drill touches nothing of its link but one event of the timeline: what it makes is under
the name of a scratch link, and is removed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Literal

from heliograph.model.clocks import longest_s
from heliograph.model.moments import moment
from heliograph.model.topics import Partition

DRILL = b"drill"
"""The row of a scratch link's control topic that says so; see ``Mark``."""

LONGEST = timedelta(minutes=15)
"""No drill takes longer: one that was begun before that is dead."""

Verdict = Literal["pass", "fail", "no objective set"]
_NAMED = 10
_NOT_MEASURED = (
    "the RPO in seconds could not be measured: records that did not arrive are stamped in the"
    " future, so the clocks of their producers are ahead"
)


@dataclass(frozen=True, slots=True)
class Mark:
    """Whose scratch link it is: the link it rehearses for, and the process that drills."""

    link: str
    by: str
    host: str
    pid: int
    begun_ms: int

    def may_be_alive(self, now_ms: int, host: str, living: bool) -> bool:
        """Tell whether the drill may be under way; ``living`` is what this host says of its pid."""
        if now_ms - self.begun_ms > LONGEST / timedelta(milliseconds=1):
            return False
        return living if self.host == host else True


@dataclass(frozen=True, slots=True)
class Sampled:
    """A partition of the sample: source offsets from ``begin``, to ``end`` when it was chosen.

    ``place`` is where the scratch group stands on the source.
    """

    source: Partition
    mirror: Partition
    begin: int
    end: int

    @property
    def place(self) -> int:
        """The middle: records on both sides of it must have been translated exactly."""
        return (self.begin + self.end) // 2


def choose(
    logs: Mapping[Partition, range],
    mirrors: Mapping[str, str],
    most_partitions: int,
    most_records: int,
) -> list[Sampled]:
    """Return the newest offsets of some partitions: of every topic the first, then the second.

    ``logs`` are the offsets that the source holds, ``mirrors`` the scratch topics by source topic.

    >>> log = {Partition("a", 0): range(5, 20), Partition("a", 1): range(3)}
    >>> [(one.begin, one.end, one.place) for one in choose(log, {"a": "scratch.a"}, 1, 10)]
    [(10, 20, 15)]
    """
    in_turn = sorted(logs, key=lambda one: (one.partition, one.topic))[:most_partitions]
    return [
        Sampled(
            one,
            Partition(mirrors[one.topic], one.partition),
            max(logs[one].start, logs[one].stop - most_records),
            logs[one].stop,
        )
        for one in sorted(in_turn)
    ]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a partition. ``missing_seconds`` is the age of the oldest record lost; None
    where that record's timestamp is of the future.

    ``read_seconds`` is when the group's first record was read, since the failover began; None
    where there was nothing to read. ``finding`` says what is wrong, if anything is.
    """

    sampled: Sampled
    arrived_records: int
    missing_records: int
    missing_seconds: float | None
    target_offset: int | None
    read_seconds: float | None
    finding: str | None = None

    def as_dict(self, group: str) -> dict[str, Any]:
        """Return the move of the group, as JSON shows it."""
        return {
            "group": group,
            "topic": self.sampled.source.topic,
            "partition": self.sampled.source.partition,
            "source_offset": self.sampled.place,
            "target_offset": self.target_offset,
            "compared": self.read_seconds is not None,
            "exact": self.finding is None,
            "why": self.finding or "",
        }


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """One topic. ``partitions`` is how many of it were sampled."""

    topic: str
    scratch: str
    partitions: int
    arrived_records: int
    missing_records: int
    rpo_seconds: float | None
    rto_seconds: float


@dataclass(frozen=True, slots=True)
class End:
    """A cluster of the link: its name in the configuration, its id, and how many brokers it has."""

    cluster: str
    cluster_id: str
    brokers: int


@dataclass(frozen=True, slots=True)
class Drilled:
    """A drill, from its beginning to its verdict: the evidence.

    ``failover_seconds`` is what the failover alone took; ``foreseen`` is what a real one would
    find now, and where it would miss the objective, that is a finding; ``left`` is what could not
    be removed.
    """

    link: str
    drill: str
    group: str
    by: str
    begun_ms: int
    ended_ms: int
    source: End
    target: End
    versions: Mapping[str, str]
    partitions_of_link: int
    most_records: int
    outcomes: Sequence[Outcome]
    failover_seconds: float
    steps: tuple[str, ...]
    foreseen: Mapping[str, Any]
    rpo: timedelta | None = None
    rto: timedelta | None = None
    has_hooks: bool = False
    findings: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def topics(self) -> tuple[TopicOutcome, ...]:
        """What came of each topic, in the order of their names."""
        names = sorted({one.sampled.source.topic for one in self.outcomes})
        return tuple(self._topic(name) for name in names)

    def _topic(self, name: str) -> TopicOutcome:
        mine = [one for one in self.outcomes if one.sampled.source.topic == name]
        return TopicOutcome(
            name,
            mine[0].sampled.mirror.topic,
            len(mine),
            sum(one.arrived_records for one in mine),
            sum(one.missing_records for one in mine),
            longest_s(one.missing_seconds for one in mine),
            max(self.failover_seconds, *(one.read_seconds or 0.0 for one in mine)),
        )

    @property
    def missing_records(self) -> int:
        """What the source held when the copying was killed, and did not arrive."""
        return sum(one.missing_records for one in self.outcomes)

    @property
    def rpo_seconds(self) -> float | None:
        """The age of the oldest record that was lost, when the copying was killed.

        None where the clocks of producers are ahead: then it is not known.
        """
        return longest_s(one.missing_seconds for one in self.outcomes)

    @property
    def rto_seconds(self) -> float:
        """From the command to the first record that the group read in every partition."""
        return max((one.rto_seconds for one in self.topics), default=self.failover_seconds)

    @property
    def rpo_ok(self) -> bool | None:
        """Whether the objective was kept; None where there is none, or it is not known."""
        if self.rpo is None or self.rpo_seconds is None:
            return None
        return self.rpo_seconds <= self.rpo.total_seconds()

    @property
    def rto_ok(self) -> bool | None:
        """Whether the objective was kept; None where there is none."""
        return None if self.rto is None else self.rto_seconds <= self.rto.total_seconds()

    @property
    def all_findings(self) -> tuple[str, ...]:
        """All that is wrong: of the drill, of partitions, of the link, and what was left behind."""
        wrong = [one.finding for one in self.outcomes if one.finding is not None]
        left = [f"could not be removed: {one}" for one in self.left]
        blind = [_NOT_MEASURED] if self.rpo is not None and self.rpo_seconds is None else []
        return (*self.findings, *wrong, *blind, *self._late(), *left)

    def _late(self) -> Iterable[str]:
        """Say that the link itself is too late now, whatever came of the sample."""
        if self.rpo is not None and self.foreseen.get("rpo_ok") is False:
            yield (
                "a real failover would miss the RPO now:"
                f" {self.foreseen['missing_records']} records"
                f" of {span(self.foreseen['rpo_seconds'])} have not arrived on the link itself"
            )

    @property
    def verdict(self) -> Verdict:
        """What it comes to."""
        if self.all_findings or False in (self.rpo_ok, self.rto_ok):
            return "fail"
        return "no objective set" if self.rpo is None and self.rto is None else "pass"

    @property
    def lines(self) -> tuple[str, ...]:
        """What the timeline of the link tells of it."""
        found = self.all_findings
        more = len(found) - _NAMED
        return (
            f"{self.verdict}: {len(self.outcomes)} partitions of {len(self.topics)} topics",
            f"RPO {span(self.rpo_seconds)}, {self.missing_records} records"
            f" ({against(_seconds(self.rpo), self.rpo_ok)})",
            f"RTO {span(self.rto_seconds)} ({against(_seconds(self.rto), self.rto_ok)})",
            *found[:_NAMED],
            *([f"and {more} more findings"] if more > 0 else []),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return {
            "link": self.link,
            "verb": "drill",
            "verdict": self.verdict,
            "drill": self.drill,
            "by": self.by,
            "begun_at": moment(self.begun_ms),
            "ended_at": moment(self.ended_ms),
            "source": asdict(self.source),
            "target": asdict(self.target),
            "versions": dict(self.versions),
            "missing_records": self.missing_records,
            "rpo_seconds": self.rpo_seconds,
            "rpo_objective_seconds": _seconds(self.rpo),
            "rpo_ok": self.rpo_ok,
            "rto_seconds": self.rto_seconds,
            "rto_objective_seconds": _seconds(self.rto),
            "rto_ok": self.rto_ok,
            "failover_seconds": self.failover_seconds,
            "partitions": len(self.outcomes),
            "partitions_of_link": self.partitions_of_link,
            "arrived_records": sum(one.arrived_records for one in self.outcomes),
            "topics": [asdict(one) for one in self.topics],
            "groups": [one.as_dict(self.group) for one in self.outcomes],
            "findings": list(self.all_findings),
            "steps": list(self.steps),
            "hooks": self.has_hooks,
            "left_behind": list(self.left),
            "real_failover_now": dict(self.foreseen),
            "notes": list(self.notes),
            "cannot_show": self._cannot_show(),
        }

    def _cannot_show(self) -> list[str]:
        """Say what no drill of this kind is evidence of."""
        told = [
            f"Only the newest {self.most_records} records of each partition, and what came while it"
            " copied, were sampled: neither throughput nor a backlog was.",
            "The source was alive and counted as gone. The time that people take to notice that it"
            " is gone, and to decide, is not in the RTO.",
            "One process copied, with the code of a Spark task but without Spark; it was killed by"
            " SIGKILL. A failover needs neither Spark nor the driver.",
            "The group's offsets were set by the failover and its first records read by Heliograph."
            " No application was restarted or reconnected.",
            "The RPO in seconds goes by the timestamps of records, which producers set.",
        ]
        if not self.has_hooks:
            told.append("The hooks of the configuration were not run.")
        return told


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


def span(seconds: float | None) -> str:
    """Say how long something is.

    >>> span(1.5), span(None)
    ('1.5 s', 'not known')
    """
    return "not known" if seconds is None else f"{seconds} s"


def against(objective_s: float | None, is_kept: bool | None) -> str:
    """Say how something stands against its objective.

    >>> against(None, None), against(2.0, None), against(2.0, True)
    ('no objective set', 'objective 2.0 s: not known', 'objective 2.0 s: kept')
    """
    if objective_s is None:
        return "no objective set"
    kept = "not known" if is_kept is None else "kept" if is_kept else "missed"
    return f"objective {objective_s} s: {kept}"
