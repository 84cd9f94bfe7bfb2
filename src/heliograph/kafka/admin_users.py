"""SCRAM users, which the cluster itself keeps."""

from typing import Any

from kafka.admin import UserScramCredentialDeletion, UserScramCredentialUpsertion

from heliograph.errors import RequestRefused
from heliograph.kafka.admin_session import Session
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.secret import Secret


class Users:
    """The SCRAM users of one cluster."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(
        self, user: str, mechanism: str, password: Secret, deadline: Deadline | None = None
    ) -> None:
        """Create a user, or give one another password. It is salted here: it does not travel."""
        change = UserScramCredentialUpsertion(user, mechanism, password.reveal())
        self._alter(change, f"setting the password of {user}", deadline)

    def delete(self, user: str, mechanism: str, deadline: Deadline | None = None) -> None:
        """Delete a user's password for one mechanism."""
        change = UserScramCredentialDeletion(user, mechanism)
        self._alter(change, f"deleting the password of {user}", deadline)

    def names(self, deadline: Deadline | None = None) -> list[str]:
        """Return all users that have a password, sorted."""

        def ask(client: Any, _: int) -> list[str]:
            return sorted(client.describe_user_scram_credentials())

        return self._session.call("listing users", ask, deadline)

    def _alter(self, change: Any, doing: str, deadline: Deadline | None) -> None:
        def ask(client: Any, _: int) -> None:
            for reason in client.alter_user_scram_credentials([change]).values():
                # kafka-python keeps the broker's words and drops its code.
                if reason is not None:
                    raise RequestRefused(f"while {doing}: {reason}", cluster=self._session.name)

        self._session.call(doing, ask, deadline)
