import base64
import json
import time
from pathlib import Path

from heliograph.local import credentials
from heliograph.local.layout import Folder
from heliograph.local.spec import Spec, User


def test_secrets_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    spec = Spec(name="x", mtls=True, sasl="OAUTHBEARER", users=(User("alice", "secret"),))
    folder = Folder(tmp_path)
    credentials.prepare(spec, folder)
    files = list(folder.secrets.iterdir())
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert folder.secrets.stat().st_mode & 0o777 == 0o700


def test_a_cluster_without_security_has_no_secrets(tmp_path: Path) -> None:
    assert credentials.prepare(Spec(name="x"), Folder(tmp_path)) == ()
    assert list(tmp_path.iterdir()) == []


def test_the_default_user_keeps_its_random_password(tmp_path: Path) -> None:
    spec = Spec(name="x", sasl="PLAIN")
    first = credentials.prepare(spec, Folder(tmp_path))
    assert [user.name for user in first] == ["heliograph"]
    assert credentials.prepare(spec, Folder(tmp_path)) == first


def test_clients_get_javas_names_and_no_secret_unless_revealed(tmp_path: Path) -> None:
    spec = Spec(name="x", mtls=True, sasl="PLAIN", users=(User("alice", "secret"),))
    folder = Folder(tmp_path)
    credentials.prepare(spec, folder)
    hidden = credentials.client_properties(spec, folder, "alice", reveal=False)
    assert hidden["sasl.password"] == f"${{file:{folder.secrets}/user-alice.password}}"
    shown = credentials.client_properties(spec, folder, "alice", reveal=True)
    assert shown["sasl.password"] == "secret"
    assert shown["security.protocol"] == "SASL_SSL"
    assert shown["sasl.username"] == "alice"
    for key in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location"):
        assert Path(shown[key]).exists()


def test_a_token_names_the_user_and_is_valid_now() -> None:
    head, claims, signature = credentials.unsigned_token("alice").split(".")
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"}
    said = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert said["sub"] == "alice"
    assert said["iat"] <= time.time() < said["exp"]
    assert signature == ""
