"""``heliograph demo``: the guided first minutes."""

import click

from heliograph.cli import render
from heliograph.cli.clusters import bring_up, fetch_jars
from heliograph.cli.options import Session, shared_options
from heliograph.local.brokers import Cluster
from heliograph.local.spec import Spec


@click.command()
@shared_options
@click.pass_obj
def demo(session: Session, /) -> None:
    """Two local clusters, records in, records out.

    Needs nothing but Java, changes nothing outside a temporary folder, and leaves nothing
    behind. The mirror between the two clusters lands in a later version.
    """
    render.remark(session, "The mirror lands later: this shows the two clusters it will join.")
    fetch_jars(session, verify=False)
    started = bring_up(session, [Spec(name="source"), Spec(name="target")], None)
    try:
        source, target = started
        for cluster in started:
            render.remark(session, f"{cluster.name} serves at {cluster.bootstrap}")
        exercise(source, target)
    finally:
        for cluster in started:
            cluster.stop()
    render.remark(session, "Both clusters are stopped and their files removed.")


def exercise(source: Cluster, target: Cluster) -> None:
    """Use the clusters: records into the first, and out again."""
