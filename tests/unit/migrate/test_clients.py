"""How clusters are reached: security, stores, references, and secrets that are never shown."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import ConfigError
from heliograph.kafka.properties import PROPERTIES
from heliograph.migrate.clients import SECRETS
from tests.unit.migrate.imported import BASE, config, mm2, mm2_refused, told

SECRET = "Hunter2Hunter2"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SASL = "A.security.protocol = SASL_SSL\nA.sasl.mechanism = SCRAM-SHA-512\n"


def jaas(module: str = SCRAM, password: str = SECRET) -> str:
    return f'A.sasl.jaas.config = {module} required username="mirror" password="{password}";\n'


def properties(added: str, alias: str = "A") -> dict[str, object]:
    return dict(config(mm2(BASE + added)).clusters[alias].properties)


def test_the_table_of_secrets_is_complete() -> None:
    known = {name for name, words in PROPERTIES.items() if words.endswith("; a secret")}
    assert known == {*SECRETS, "sasl.jaas.config"}


# Logins


def test_a_jaas_line_becomes_a_user_and_a_password() -> None:
    found = mm2(BASE + SASL + jaas())
    assert config(found).clusters["A"].properties == {
        "bootstrap.servers": "a-1:9092,a-2:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "mirror",
        "sasl.password": "${env:A_PASSWORD}",
    }
    assert dict(found.variables) == {"A_PASSWORD": SECRET}
    assert "Export it as A_PASSWORD" in " ".join(found.text.split())
    assert SECRET not in found.text and SECRET not in repr(found)


def test_a_password_in_a_jaas_line_may_be_a_reference() -> None:
    found = properties(SASL + jaas(password="${env:MINE}"))
    assert found["sasl.password"] == "${env:MINE}"


def test_a_whole_jaas_line_may_be_one() -> None:
    found = properties(f"{SASL}A.sasl.jaas.config = ${{directory:/etc/kafka:jaas}}\n")
    assert found["sasl.jaas.config"] == "${file:/etc/kafka/jaas}"


@pytest.mark.parametrize("module", ["com.sun.security.auth.module.Krb5LoginModule", "my.Module"])
def test_other_login_modules_are_refused(module: str) -> None:
    (refused,) = mm2_refused(BASE + SASL + jaas(module))
    assert "sasl.jaas.config (line 7)" in refused and "only PlainLoginModule" in refused


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ("A.security.protocol = SASL_SSL\n", "sasl.mechanism is missing"),
        ("A.security.protocol = SASL_SSL\nA.sasl.mechanism = GSSAPI\n", "'GSSAPI' is not"),
        (SASL, "sasl.jaas.config is missing: the login stood in the JAAS file"),
        (SASL + jaas(PLAIN), "its login module is for PLAIN"),
        ("A.security.protocol = TLS\n", "'TLS' is not supported"),
        (f"{SASL}{jaas()}A.sasl.login.callback.handler.class = my.Class\n", "Java classes"),
        (f"{SASL}{jaas()}A.ssl.engine.factory.class = my.Class\n", "Java classes"),
        ("B.bootstrap.servers = b\n", "'b' has no port"),
    ],
)
def test_what_no_cluster_could_be_reached_with_is_refused(added: str, message: str) -> None:
    refused = [one for one in mm2_refused(BASE + added) if message in one]
    assert len(refused) == 1


def test_tokens_need_no_java_class() -> None:
    found = properties(
        "A.security.protocol = SASL_SSL\nA.sasl.mechanism = OAUTHBEARER\n"
        "A.sasl.oauthbearer.token.endpoint.url = https://tokens\n"
        "A.sasl.oauthbearer.client.credentials.client.id = me\n"
        f"A.sasl.oauthbearer.client.credentials.client.secret = {SECRET}\n"
        "A.sasl.login.callback.handler.class = org.apache.kafka.common.security.oauthbearer."
        "OAuthBearerLoginCallbackHandler\n"
    )
    key = "sasl.oauthbearer.client.credentials.client.secret"
    assert found[key] == "${env:A_CLIENT_SECRET}"


def test_the_narrowest_key_wins() -> None:
    bare = "security.protocol = SSL\n"
    assert properties(bare)["security.protocol"] == "SSL"
    assert properties(bare, "B")["security.protocol"] == "SSL"
    assert properties(f"{bare}A.security.protocol = PLAINTEXT\n")["security.protocol"] == (
        "PLAINTEXT"
    )
    narrow = f"{bare}A.security.protocol = PLAINTEXT\nA.consumer.security.protocol = SSL\n"
    assert properties(narrow)["security.protocol"] == "SSL"
    override = f"{bare}A->B.producer.override.security.protocol = PLAINTEXT\n"
    assert properties(override, "B")["security.protocol"] == "PLAINTEXT"


def test_two_logins_for_one_cluster_are_refused() -> None:
    added = "A.consumer.security.protocol = SSL\nA.admin.security.protocol = PLAINTEXT\n"
    (refused,) = mm2_refused(BASE + added)
    assert "a cluster has one login for all" in refused


def test_what_the_protocol_has_no_use_for_is_left_out() -> None:
    found = mm2(f"{BASE}A.sasl.mechanism = PLAIN\nA.ssl.truststore.location = /x.jks\n{jaas()}")
    assert set(config(found).clusters["A"].properties) == {"bootstrap.servers"}
    assert "A.sasl.mechanism: security.protocol is PLAINTEXT, which has no login" in found.text
    assert SECRET not in found.text and not found.variables


# TLS


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("A.ssl.truststore.location = /etc/t.jks", "keytool -list -rfc -keystore /etc/t.jks"),
        ("A.ssl.truststore.location = /etc/t", "keytool -list"),
        ("A.ssl.keystore.location = /etc/k.p12", "openssl pkcs12 -in /etc/k.p12"),
        ("A.ssl.keystore.type = JKS\nA.ssl.keystore.location = /etc/k.pem", "importkeystore"),
    ],
)
def test_javas_stores_are_refused_with_the_command_that_converts_them(
    lines: str, words: str
) -> None:
    added = f"A.security.protocol = SSL\n{lines}\nA.ssl.truststore.password = {SECRET}\n"
    (refused,) = mm2_refused(BASE + added)
    assert words in refused and "reads PEM" in refused and SECRET not in refused


def test_pem_files_are_kept_and_need_not_be_here() -> None:
    found = properties(
        "A.security.protocol = SSL\nA.ssl.truststore.type = PEM\n"
        "A.ssl.truststore.location = /no/such/ca\nA.ssl.keystore.location = /no/such/key.pem\n"
        f"A.ssl.key.password = {SECRET}\nA.ssl.keystore.password = {SECRET}\n"
    )
    assert found["ssl.truststore.location"] == "/no/such/ca"
    assert found["ssl.key.password"] == "${env:A_KEY_PASSWORD}"
    assert "ssl.keystore.password" not in found


def test_a_host_check_that_is_off_is_a_warning() -> None:
    key = "ssl.endpoint.identification.algorithm"
    found = mm2(f"{BASE}A.security.protocol = SSL\nA.{key} =\n")
    assert config(found).clusters["A"].properties[key] == ""
    (warning,) = found.warnings
    assert warning.startswith(f"cluster A: {key} is empty")


def test_old_versions_of_tls_are_left_out() -> None:
    added = "A.security.protocol = SSL\nA.ssl.enabled.protocols = TLSv1.1,TLSv1.2\n"
    assert properties(added)["ssl.enabled.protocols"] == "TLSv1.2"
    (refused,) = mm2_refused(BASE + added.replace(",TLSv1.2", ""))
    assert "TLSv1.2 and TLSv1.3 only" in refused


# References


def test_references_are_kept_or_translated() -> None:
    added = f"{SASL}A.sasl.username = ${{env:WHO}}\nA.sasl.password = ${{directory:/run/x:pw}}\n"
    found = properties(added)
    assert (found["sasl.username"], found["sasl.password"]) == ("${env:WHO}", "${file:/run/x/pw}")


def test_providers_have_the_names_that_the_file_gives_them() -> None:
    providers = (
        "config.providers = v\n"
        "config.providers.v.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    )
    found = properties(f"{providers}{SASL}A.sasl.username = x\nA.sasl.password = ${{v:PW}}\n")
    assert found["sasl.password"] == "${env:PW}"


@pytest.mark.parametrize(
    "value",
    ["${file:/etc/secrets.properties:pw}", "${vault:path:pw}", "x${env:A}", "${env:A}${env:B}"],
)
def test_other_references_are_refused(value: str) -> None:
    (refused,) = mm2_refused(f"{BASE}{SASL}A.sasl.username = x\nA.sasl.password = {value}\n")
    assert "A.sasl.password (line 8)" in refused
    assert "${directory:FOLDER:FILE}" in refused or "the whole value" in refused
    assert value not in refused


# Secrets

_SECRETS = st.text("abcXYZ0189!$%&/()=?{}[]#'*+~-_.:,;<>|^`@ \\\"", min_size=1, max_size=24).map(
    lambda text: f"Zq{text}qZ"
)


def _escaped(value: str) -> str:
    return "".join(f"\\u{ord(sign):04x}" for sign in value)


@given(_SECRETS, st.booleans())
def test_no_secret_is_in_anything_that_is_told(secret: str, is_refused: bool) -> None:
    in_jaas = secret.replace("\\", "\\\\").replace('"', '\\"')
    line = f'{SCRAM} required username="u" password="{in_jaas}";'
    text = (
        f"{BASE}{SASL}A.sasl.jaas.config = {_escaped(line)}\n"
        f"B.security.protocol = SASL_SSL\nB.sasl.mechanism = PLAIN\nB.sasl.username = u\n"
        f"B.sasl.password = {_escaped(secret)}\nB.ssl.key.password = {_escaped(secret)}\n"
        f"B.ssl.truststore.password = {_escaped(secret)}\nsasl.password = {_escaped(secret)}\n"
        f"A.consumer.sasl.password = {_escaped(secret)}\nwhat.is.password = {_escaped(secret)}\n"
        + ("transforms = x\nB.ssl.truststore.location = /x.jks\n" if is_refused else "")
    )
    try:
        found = mm2(text)
        said = f"{found.text}{found!r}{found.ignored}{found.warnings}"
        assert secret in found.variables.values()
    except ConfigError as refused:
        said = f"{refused}{refused!r}{told(refused)}"
        assert refused.__cause__ is None
    assert secret not in re.sub(r"\s+", " ", said) and secret not in said


@pytest.mark.parametrize("line", [SECRET, f'password="{SECRET}";', f"{SECRET}=", f"a.{SECRET} ="])
def test_a_line_that_lost_its_backslash_is_not_shown(line: str) -> None:
    found = mm2(f"{BASE}{line}\n")
    assert SECRET not in found.text and "line 5" in found.text
