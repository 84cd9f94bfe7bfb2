"""``heliograph status``: what links do, read from the targets alone."""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import click

from heliograph.cli import render
from heliograph.cli.options import Session, option, shared_options
from heliograph.control.statuses import Statuses
from heliograph.errors import ConfigError
from heliograph.model.group_reports import GroupStatus
from heliograph.model.moments import moment
from heliograph.model.status import LinkStatus, PartStatus, TopicStatus
from heliograph.wiring import load_config, setups

HEALTHY, UNHEALTHY = 0, 1
REFRESH = timedelta(seconds=2)
_PATIENCE = timedelta(seconds=10)
_LINK = ("link", "state", "lag", "rate", "partitions", "faulted", "gaps", "copied", "eta")
_TOPIC = ("link", "topic", "mirror", "state", "partitions", "faulted", "lag", "gaps")
_PART = (
    "link", "topic", "partition", "state", "leader", "start", "end", "position", "mirror_end",
    "lag", "runs", "gaps",
)  # fmt: skip
GROUP = (
    "group", "kind", "state", "target_state", "lag_source", "lag_target", "sync", "age",
)  # fmt: skip
"""The columns of consumer groups."""
# The worst first: what is not known might be anything.
BADNESS = (
    *("UNKNOWN", "FAULTED", "PROMOTING", "REVERSING", "FAILING_BACK"),
    *("ACTIVE", "CREATED", "PAUSED", "STOPPED", "FAILED_OVER", "PROMOTED", "DONE"),
)
"""Every state, the order of a table."""


@click.command(short_help="What links do: state, lag, rate, gaps, errors.")
@click.argument("links", nargs=-1, metavar="[LINK]...")
@option("--watch", is_flag=True, help="Go on, every two seconds, until Ctrl-C.")
@option("--topics", is_flag=True, help="A line for every topic, too.")
@option("--partitions", is_flag=True, help="A line for every partition, too.")
@option("--groups", is_flag=True, help="A line for every consumer group, too.")
@shared_options
@click.pass_obj
def status(
    session: Session,
    /,
    links: tuple[str, ...],
    watch: bool,
    topics: bool,
    partitions: bool,
    groups: bool,
) -> int:
    """Show what links do, all unless some are named; the worst first.

    Everything is read from the target clusters, so it works from any machine, also when no
    `heliograph run` is alive and when the source is down. Lag is as it was last reported, and a
    lower bound (≥) where that is not all. JSON and YAML always hold the topics, partitions and
    consumer groups.

    A link whose topics recovery has turned round is followed by its opposite direction,
    LINK-reverse, which is read from the link's source.

    Exit code 1 means that something is wrong: a partition is faulted, a driver, a task or the
    source was not heard from for ten seconds, the link cannot be started, the target cannot be
    asked, or an objective is missed or not known to be kept.

    \b
    Examples:
      heliograph status
      heliograph status paris-dublin --watch
      heliograph status --topics
      heliograph status -o json | jq '.[].lag_records'
    """
    config = load_config(session.file)
    chosen = setups(config, links)
    if not chosen:
        raise ConfigError("the configuration has no links, so there is nothing to show")
    show = partial(tables, topics=topics, partitions=partitions, groups=groups)
    with Statuses(chosen, opposites=True) as statuses:
        if watch:
            return _watch(session, statuses, show)
        found = _sorted(statuses.read(_PATIENCE))
    if session.output == "table":
        render.show_parts(session, show(found))
    else:
        render.show(session, [one.as_dict() for one in found], (), "")
    return HEALTHY if all(one.is_healthy for one in found) else UNHEALTHY


def _watch(
    session: Session,
    statuses: Statuses,
    show: Callable[[Sequence[LinkStatus]], list[render.Part]],
) -> int:
    """Show anew until Ctrl-C, which ends the command with its usual exit code."""
    with render.redrawn(session) as draw:
        while True:
            began_s = time.monotonic()
            found = _sorted(statuses.read(_PATIENCE))
            if session.output != "table":
                render.document(session, [one.as_dict() for one in found])
            elif draw is not None:
                draw(show(found))
            else:
                for one in found:
                    render.line(in_a_line(one, int(time.time() * 1000)))
            time.sleep(max(0.0, REFRESH.total_seconds() - (time.monotonic() - began_s)))


def tables(
    found: Sequence[LinkStatus],
    *,
    topics: bool = False,
    partitions: bool = False,
    groups: bool = False,
) -> list[render.Part]:
    """Return what a person is shown: links with their errors, then what was asked for."""
    has_objective = any(one.rpo_ok is not None for one in found)
    columns = (*_LINK, "rpo") if has_objective else _LINK
    said = [f"{one.link}: {text}" for one in found for text in (*one.errors, *one.notes)]
    lines = ["", *said] if said else []
    shown = [render.Part([_link_row(one) for one in found], columns, lines)]
    if topics:
        shown.append(topic_table(found))
    if partitions:
        rows = [
            _part_row(one, topic, part)
            for one in found
            for topic in _worst_first(one.topics)
            for part in topic.partitions
        ]
        shown.append(render.Part(rows, _PART))
    if groups:
        rows = [{"link": one.link, **group_row(it)} for one in found for it in one.groups]
        shown.append(render.Part(rows, ("link", *GROUP)))
    return shown


def group_row(one: GroupStatus) -> dict[str, Any]:
    """Return the line of a consumer group."""
    return {
        "group": one.group,
        "kind": one.kind or "-",
        "state": one.state or "-",
        "target_state": one.target_state or "-",
        "lag_source": render.number(one.lag_source),
        "lag_target": render.number(one.lag_target),
        "sync": one.sync,
        "age": render.span(one.age_seconds),
    }


def topic_table(found: Sequence[LinkStatus]) -> render.Part:
    """Return a line for every topic."""
    rows = [_topic_row(one, topic) for one in found for topic in _worst_first(one.topics)]
    return render.Part(rows, _TOPIC)


def in_a_line(one: LinkStatus, now_ms: int) -> str:
    """Return a link's status as a line of a log."""
    text = f"{moment(now_ms)} {one.link} {_state(one)} lag {_lag(one)}, {_rate(one)}"
    if one.partitions_faulted:
        text += f", {one.partitions_faulted} of {one.partitions} partitions faulted"
    return f"{text}, errors: {len(one.errors)}" if one.errors else text


def _sorted(found: Sequence[LinkStatus]) -> list[LinkStatus]:
    return sorted(
        found,
        key=lambda one: (one.is_healthy, BADNESS.index(_state(one)), -(one.lag_records or 0)),
    )


def _worst_first(topics: Sequence[TopicStatus]) -> list[TopicStatus]:
    return sorted(topics, key=lambda one: (BADNESS.index(one.state), -_topic_lag(one), one.topic))


def _link_row(one: LinkStatus) -> dict[str, Any]:
    verdicts = {True: "kept", False: "missed", None: "-"}
    return {
        "link": one.link,
        "state": _state(one),
        "lag": _lag(one),
        "rate": _rate(one),
        "partitions": render.number(one.partitions),
        "faulted": render.number(one.partitions_faulted),
        "gaps": _gaps(one),
        "copied": _copied(one),
        "eta": render.span(one.eta_seconds),
        "rpo": verdicts[one.rpo_ok],
    }


def _topic_row(one: LinkStatus, topic: TopicStatus) -> dict[str, Any]:
    return {
        "link": one.link,
        "topic": topic.topic,
        "mirror": topic.mirror,
        "state": topic.state,
        "partitions": render.number(len(topic.partitions)),
        "faulted": render.number(sum(part.state == "FAULTED" for part in topic.partitions)),
        "lag": render.number(_topic_lag(topic)),
        "gaps": render.number(sum(len(part.gaps) for part in topic.partitions)),
    }


def _part_row(one: LinkStatus, topic: TopicStatus, part: PartStatus) -> dict[str, Any]:
    return {
        "link": one.link,
        "topic": topic.topic,
        "partition": part.partition,
        "state": part.state,
        "leader": render.number(part.leader),
        "start": render.number(part.source_start),
        "end": render.number(part.source_end),
        "position": render.number(part.source_position),
        "mirror_end": render.number(part.target_end),
        "lag": render.number(part.lag_records),
        "runs": render.number(part.runs),
        "gaps": render.number(len(part.gaps)),
    }


def _state(one: LinkStatus) -> str:
    return one.state or "UNKNOWN"


def _lag(one: LinkStatus) -> str:
    if one.lag_records is None:
        return "-"
    least = "≥ " if one.lag_is_lower_bound else ""
    return f"{least}{render.number(one.lag_records)} ({render.span(one.lag_seconds)})"


def _copied(one: LinkStatus) -> str:
    if one.records_total is None:
        return "-"
    return f"{render.number(one.records_total)} ({render.size(one.bytes_total)})"


def _rate(one: LinkStatus) -> str:
    if one.records_per_second is None:
        return "-"
    return f"{render.number(one.records_per_second)}/s ({render.size(one.bytes_per_second)}/s)"


def _gaps(one: LinkStatus) -> str:
    away = f" + {one.quarantined} quarantined" if one.quarantined else ""
    return render.number(one.gaps) + away


def _topic_lag(topic: TopicStatus) -> int:
    return sum(part.lag_records or 0 for part in topic.partitions)
