"""Every error Heliograph raises, as one tree.

A class says what happened; its ``code`` never changes, since documentation, logs, JSON and
metrics use it. A message answers three questions: what happened, what did Heliograph do about
it, what should the reader do now. No message ever holds a secret.

    HeliographError
      ConfigError              a person must edit something
        SlotsShort             Spark has fewer slots than tasks
        NoSuchLink             a name that no link of the configuration has
        AddressTaken           the dashboard cannot listen where it should
      EngineFailed             Spark could not be started, or ended a link's query
      RunFailed                some links did not end well, each for a reason told before
      Unsafe                   refused for safety: records could be lost or doubled
      DemoFailed               the demo did not show what it promises
      LocalError               a local cluster could not be started, found or stopped
      ClusterError             a cluster refused or failed; has cluster
        Unreachable            no connection could be made or kept
        DeadlinePassed         it may have healed, but not in the time allowed
        LoginRefused           the cluster does not accept who we are
        CertificateRefused     the two sides do not trust each other's certificate
        NotAuthorized          logged in, but an ACL is missing
        TopicMissing           no such topic or partition
        TopicExists            there is a topic of this name already
        TopicRecreated         the topic id is gone: same name, another topic
        OffsetOutOfRange       the log no longer, or not yet, holds the offset
        LogTruncated           the log lost records that were already read
        NotReady               leader, coordinator or replicas are moving; heals
        RecordsRefused         the target does not take these records
        OutcomeUnknown         a write may or may not stand in the log
        ProtocolBroken         bytes that are not what the protocol says
        RequestRefused         anything else the cluster will not do
      LinkError                copying stopped; has link, partition, offsets
        Superseded             another writer claimed; stop, do not claim again
        CorruptBatch           checksum wrong; not passed on
        Diverged               match failed; nothing was written
        LedgerUnreadable       what was copied is not known; nothing was written
        LedgerUnfit            the ledger is about other topics or clusters; nothing was written
        GapFound               source offsets that will never arrive
        Stalled                the process stood still for too long to go on as the writer
        ForeignRecords         something else wrote to the mirror
        MirrorOccupied         a topic that is not the mirror of this link holds records
        MirrorAppendTime       the mirror's brokers would replace the times of records
        MirrorClosed           the mirror was promoted or failed over: applications write it now
      RecoveryError            a step of a recovery verb failed; the same command goes on there
"""

from collections.abc import Sequence


class HeliographError(Exception):
    """The root: catch this to catch everything Heliograph raises on purpose.

    ``retriable`` says whether the same request may succeed later without anybody's help.
    """

    code = "error"
    retriable = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel between processes; keyword-only arguments do not by themselves.
        return (_rebuild, (type(self), self.message, self.__dict__))


class ConfigError(HeliographError):
    """A person must edit something: a setting, an option, a file."""

    code = "config"


class SlotsShort(ConfigError):
    """Spark has fewer slots than the links have tasks. No link was started."""

    code = "slots-short"


class NoSuchLink(ConfigError):
    """No link of the configuration has this name."""

    code = "no-such-link"


class AddressTaken(ConfigError):
    """The dashboard cannot listen at its address: another process does, or it is none of ours."""

    code = "address-taken"


class EngineFailed(HeliographError):
    """Spark could not be started, or it ended a link's query."""

    code = "engine-failed"
    retriable = True


class RunFailed(HeliographError):
    """Some links did not end well; the reason of each was told before."""

    code = "run-failed"


class Unsafe(HeliographError):
    """Refused for safety: going on could lose or double records. Nothing was done."""

    code = "unsafe"


class DemoFailed(HeliographError):
    """The demo did not show what it promises."""

    code = "demo-failed"


class LocalError(HeliographError):
    """A local cluster could not be started, found or stopped."""

    code = "local"


class ClusterError(HeliographError):
    """A cluster refused or failed."""

    code = "cluster"

    def __init__(self, message: str, *, cluster: str) -> None:
        super().__init__(message)
        self.cluster = cluster

    def __str__(self) -> str:
        return f"{self.code}: cluster {self.cluster}: {self.message}"


def _rebuild(
    kind: type[HeliographError], message: str, state: dict[str, object]
) -> HeliographError:
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


class Unreachable(ClusterError):
    """No connection could be made, or it broke."""

    code = "unreachable"
    retriable = True


class DeadlinePassed(ClusterError):
    """The time allowed is over; the message ends with the last thing that went wrong."""

    code = "deadline-passed"


class LoginRefused(ClusterError):
    """The cluster does not accept the user, the password, the token or the mechanism."""

    code = "login-refused"


class CertificateRefused(ClusterError):
    """One side does not trust the other's certificate, or the host name is not in it."""

    code = "certificate-refused"


class NotAuthorized(ClusterError):
    """Logged in, but the ACL for this operation is missing."""

    code = "not-authorized"


class TopicMissing(ClusterError):
    """There is no such topic or partition, or it may not be seen."""

    code = "topic-missing"


class TopicExists(ClusterError):
    """A topic that was to be made is there already: somebody else was faster."""

    code = "topic-exists"


class TopicRecreated(ClusterError):
    """The topic id is not known any more: the topic was deleted, perhaps made anew."""

    code = "topic-recreated"


class OffsetOutOfRange(ClusterError):
    """The log does not hold the offset: retention passed it, or it was never written."""

    code = "offset-out-of-range"

    def __init__(
        self,
        message: str,
        *,
        cluster: str,
        offset: int = -1,
        start_offset: int = -1,
        end_offset: int = -1,
    ) -> None:
        super().__init__(message, cluster=cluster)
        self.offset = offset
        self.start_offset = start_offset
        self.end_offset = end_offset


class LogTruncated(ClusterError):
    """The log lost records that were already read: history parted at ``end_offset``."""

    code = "log-truncated"

    def __init__(self, message: str, *, cluster: str, epoch: int, end_offset: int) -> None:
        super().__init__(message, cluster=cluster)
        self.epoch = epoch
        self.end_offset = end_offset


class NotReady(ClusterError):
    """A leader, coordinator or replica is moving or starting; trying again heals it."""

    code = "not-ready"
    retriable = True


class RecordsRefused(ClusterError):
    """The cluster does not take these records; ``indexes`` names the bad ones where it told."""

    code = "records-refused"

    def __init__(
        self, message: str, *, cluster: str, kafka_code: int, indexes: Sequence[int] = ()
    ) -> None:
        super().__init__(message, cluster=cluster)
        self.kafka_code = kafka_code
        self.indexes = tuple(indexes)


class OutcomeUnknown(ClusterError):
    """A write may or may not stand in the log. Only a claim and a match can tell."""

    code = "outcome-unknown"


class ProtocolBroken(ClusterError):
    """The other side sent bytes that are not what the protocol says; the connection is closed."""

    code = "protocol-broken"
    retriable = True


class RequestRefused(ClusterError):
    """The cluster will not do this; trying again will not help."""

    code = "request-refused"


class LinkError(HeliographError):
    """Copying stopped for one partition of a link."""

    code = "link"


class Superseded(LinkError):
    """Another writer claimed the partition. Stop; never claim again by yourself."""

    code = "superseded"


class CorruptBatch(LinkError):
    """A batch's bytes do not fit its checksum or its own lengths. It is never passed on."""

    code = "corrupt-batch"


class Diverged(LinkError):
    """A record on the mirror is not the one that the source says. Nothing was written.

    ``source_offset`` is None where the source has no record to compare with.
    """

    code = "diverged"

    def __init__(self, message: str, *, source_offset: int | None, target_offset: int) -> None:
        super().__init__(message)
        self.source_offset = source_offset
        self.target_offset = target_offset


class LedgerUnreadable(LinkError):
    """The ledger's rows contradict themselves. Nothing is copied on a guess."""

    code = "ledger-unreadable"


class LedgerUnfit(LinkError):
    """The ledger and the two logs do not belong together. Nothing is copied on a guess."""

    code = "ledger-unfit"


class GapFound(LinkError):
    """The source lost offsets, half-open, before they were copied. The policy says: stop."""

    code = "gap-found"

    def __init__(self, message: str, *, source_start: int, source_end: int) -> None:
        super().__init__(message)
        self.source_start = source_start
        self.source_end = source_end


class Stalled(LinkError):
    """The process stood still for longer than a request lives, or its time of day was set by more.

    Somebody else may have claimed meanwhile, and the broker may not know it any more. Nothing was
    sent since; a new claim goes on.
    """

    code = "stalled"
    retriable = True


class MirrorOccupied(LinkError):
    """A topic that a link never wrote to holds records: it is not this link's mirror."""

    code = "mirror-occupied"


class MirrorAppendTime(LinkError):
    """The mirror's brokers would replace the times of records. Nothing is copied to it."""

    code = "mirror-append-time"


class MirrorClosed(LinkError):
    """The mirror was promoted or failed over; the link may not write to it any more."""

    code = "mirror-closed"


class ForeignRecords(LinkError):
    """Something else wrote to the mirror, at these target offsets, half-open.

    What this link wrote is on record all the same; opening again goes on behind them.
    """

    code = "foreign-records"
    retriable = True

    def __init__(self, message: str, *, target_start: int, target_end: int) -> None:
        super().__init__(message)
        self.target_start = target_start
        self.target_end = target_end


class RecoveryError(HeliographError):
    """A step of a recovery verb failed; the steps before it are done and on record."""

    code = "recovery"
