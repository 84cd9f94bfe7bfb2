"""Judges one partition: walks both sides, explains what is left, holds the ledger to its word.

Pure: what is read comes in as iterators.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from tests.checker.anomalies import Name
from tests.checker.digests import of_record
from tests.checker.gaps import check_gaps
from tests.checker.journal import Account
from tests.checker.ledger import Ledger
from tests.checker.resolve import Finding, Origin, check_runs, resolve
from tests.checker.sides import Log, agreed
from tests.checker.walk import Bounds, Sourced, Walk, Walked, image_of


@dataclass(frozen=True, slots=True)
class Case:
    """All there is to know of a partition. Both logs can be read more than once.

    ``mirror`` reads at either isolation level. With ``is_complete`` the mirror must hold the whole
    source; see ``Scope`` for ``gaps_ok``.
    """

    ledger: Ledger
    bounds: Bounds
    source: Callable[[], Iterator[Sourced]]
    mirror: Callable[[bool], Log]
    account: Account = field(default_factory=Account)
    quarantined: Collection[int] = ()
    is_complete: bool = False
    gaps_ok: bool = False


def judge(case: Case) -> tuple[Walked, list[Finding]]:
    """Return what the walk found, and every anomaly, one finding an offset."""
    ledger, bounds, account = case.ledger, case.bounds, case.account
    findings: list[Finding] = []
    source = account.watch(case.source(), bounds, findings)
    mirror = agreed(case.mirror(False), case.mirror(True), findings)
    walked = Walk(ledger, bounds, account.remember).run(source, mirror)

    def look_up(digests: set[int]) -> dict[int, Origin]:
        return _look_up(case.source(), digests)

    findings += resolve(walked, ledger, complete=case.is_complete, look_up=look_up)
    findings += check_runs(ledger, walked, bounds)
    findings += check_gaps(
        ledger, walked, bounds, case.quarantined, account.acknowledged, gaps_ok=case.gaps_ok
    )
    if case.is_complete and walked.first_not_copied is not None:
        left = (walked.first_not_copied, bounds.source[1])
        findings.append(Finding(Name.LOST, f"{walked.not_copied} records not copied", left))
    return walked, findings


def _look_up(source: Iterator[Sourced], digests: set[int]) -> dict[int, Origin]:
    """Scan the source once more for contents; a committed record counts more than another."""
    found: dict[int, Origin] = {}
    for record in source:
        digest = of_record(image_of(record.seen))
        if digest not in digests:
            continue
        known = found.get(digest)
        if known is None or (record.is_committed and not known.is_committed):
            found[digest] = Origin(record.offset, record.is_committed)
    return found
