"""How long the target's brokers remember a writer, and raising that for a backlog of old records.

See design.md, 3.4. The limit is raised only where the link allows it, for the time of the backlog,
and what it was before is kept in the control topic: whoever drives the link next puts it back.
"""

from __future__ import annotations

from datetime import timedelta

from heliograph.errors import NotAuthorized
from heliograph.kafka.admin import ALL_BROKERS, Admin
from heliograph.kafka.deadline import Deadline
from heliograph.links.helm import Helm
from heliograph.links.setup import Setup
from heliograph.model.configs import ConfigSource
from heliograph.model.control import RAISED, Raised, read, row

LIMIT = "producer.id.expiration.ms"
_DEFAULT = timedelta(days=1)
# As high as Kafka takes it: 24.8 days.
_MOST_MS = (1 << 31) - 1


class Expiration:
    """The limit on a link's target. ``current`` is what tasks must reckon with."""

    def __init__(self, setup: Setup, helm: Helm) -> None:
        self._setup, self._helm = setup, helm
        self.current = _DEFAULT
        self.is_raised = False

    def begin(self, deadline: Deadline) -> None:
        """Find out the limit; raise it where the link allows that."""
        with self._admin() as admin:
            self.is_raised = read(self._helm.control.rows, RAISED, Raised) is not None
            if self._setup.link.allow_broker_settings:
                self._raise(admin, deadline)
            elif self.is_raised:  # by an earlier driver, when it was allowed
                self._restore(admin, deadline)
            self.current = _limit(admin, deadline)

    def end(self, deadline: Deadline) -> None:
        """Put the limit back to what it was. No task may be copying under the raised one."""
        if self.is_raised:
            with self._admin() as admin:
                self._restore(admin, deadline)
                self.current = _limit(admin, deadline)

    def _raise(self, admin: Admin, deadline: Deadline) -> None:
        if not self.is_raised:
            entry = admin.configs.of_broker(ALL_BROKERS, deadline).get(LIMIT)
            was = entry.value if entry and entry.source is ConfigSource.ALL_BROKERS else None
            self._helm.put({RAISED: row(Raised(was))})
        admin.configs.change_broker(ALL_BROKERS, put={LIMIT: str(_MOST_MS)}, deadline=deadline)
        self.is_raised = True

    def _restore(self, admin: Admin, deadline: Deadline) -> None:
        raised = read(self._helm.control.rows, RAISED, Raised)
        was = raised.was if raised else None
        put = {} if was is None else {LIMIT: was}
        remove = (LIMIT,) if was is None else ()
        admin.configs.change_broker(ALL_BROKERS, put=put, remove=remove, deadline=deadline)
        self._helm.put({RAISED: None})
        self.is_raised = False

    def _admin(self) -> Admin:
        return Admin(self._setup.target_settings, self._setup.link.target)


def _limit(admin: Admin, deadline: Deadline) -> timedelta:
    """Return the limit in force; Kafka's own default where it may not be asked for."""
    try:
        broker = min(admin.describe(deadline).brokers)
        entry = admin.configs.of_broker(broker, deadline).get(LIMIT)
    except NotAuthorized:
        return _DEFAULT
    return timedelta(milliseconds=int(entry.value)) if entry and entry.value else _DEFAULT
