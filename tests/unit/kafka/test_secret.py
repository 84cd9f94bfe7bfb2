"""A secret's value is nowhere but where it is used."""

import pickle
from pathlib import Path

import pytest

from heliograph.errors import ConfigError
from heliograph.kafka.secret import Secret, redact

VALUE = "s3cr3t/with+odd=chars"


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(VALUE + "\n")
    path.chmod(0o600)
    return path


def test_a_secret_shows_only_stars() -> None:
    secret = Secret.literal("sasl.password", VALUE)
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>5}", f"{secret!r}"]
    assert {text.strip() for text in shown} == {"***"}


def test_an_environment_variable_is_read_when_revealed(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret.parse("sasl.password", "${env:HELIO_TEST}")
    monkeypatch.setenv("HELIO_TEST", VALUE)
    assert secret.reveal() == VALUE
    monkeypatch.setenv("HELIO_TEST", "rotated")
    assert secret.reveal() == "rotated"


def test_a_file_is_read_without_its_last_line_end(secret_file: Path) -> None:
    assert Secret.parse("sasl.password", f"${{file:{secret_file}}}").reveal() == VALUE


def test_a_relative_file_is_found_from_another_folder(
    secret_file: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(secret_file.parent)
    secret = Secret.parse("sasl.password", "${file:password}")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert pickle.loads(pickle.dumps(secret)).reveal() == VALUE


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o602])
def test_a_file_open_to_everybody_is_refused_with_the_command_to_close_it(
    secret_file: Path, mode: int
) -> None:
    secret_file.chmod(mode)
    with pytest.raises(ConfigError, match=f"chmod 600 {secret_file}") as refused:
        Secret.parse("sasl.password", f"${{file:{secret_file}}}").reveal()
    assert VALUE not in str(refused.value)


@pytest.mark.parametrize("reference", ["${env:HELIO_ABSENT}", "${file:/absent/password}"])
def test_a_reference_to_nothing_names_the_setting_and_the_place(reference: str) -> None:
    place = reference.split(":")[1].rstrip("}")
    with pytest.raises(ConfigError, match=rf"sasl\.password.*{place}"):
        Secret.parse("sasl.password", reference).reveal()


def test_a_literal_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigError, match="allow_literal_secrets") as refused:
        Secret.parse("sasl.password", VALUE)
    assert VALUE not in str(refused.value)


def test_a_pickle_holds_the_reference_and_not_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIO_TEST", VALUE)
    secret = Secret.parse("sasl.password", "${env:HELIO_TEST}")
    secret.reveal()
    packed = pickle.dumps(secret)
    assert VALUE.encode() not in packed
    assert pickle.loads(packed) == secret


def test_an_allowed_literal_travels_and_any_other_does_not() -> None:
    allowed = Secret.parse("sasl.password", VALUE, allow_literal=True)
    assert pickle.loads(pickle.dumps(allowed)).reveal() == VALUE
    with pytest.raises(ConfigError, match="may not leave this process"):
        pickle.dumps(Secret.literal("sasl.password", VALUE))


def test_equal_means_the_same_reference_or_the_same_literal() -> None:
    one, same = Secret.parse("a", "${env:X}"), Secret.parse("b", "${env:X}")
    assert one == same
    assert hash(one) == hash(same)
    assert one != Secret.parse("a", "${env:Y}")
    assert Secret.literal("a", "x") == Secret.literal("a", "x")
    assert Secret.literal("a", "x") != Secret.literal("a", "y")
    assert Secret.literal("a", "x") != "x"
    assert Secret.literal("a", "x").matches("x")
    assert not Secret.literal("a", "x").matches("y")


@pytest.mark.parametrize(
    "text",
    [
        f"login with {VALUE} failed",
        f"{VALUE!r}",
        "https://host/?password=s3cr3t%2Fwith%2Bodd%3Dchars",
    ],
)
def test_values_are_found_in_foreign_texts(text: str) -> None:
    assert "s3cr3t" not in redact(text, [Secret.literal("sasl.password", VALUE)])


def test_single_lines_of_a_long_secret_are_found_too() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nAgEAAoIBAQC7VJTUt9Us8cKj\n"
    text = redact("bad base64 in MIIEvQIBADANBgkqhkiG9w0", [Secret.literal("k", key)])
    assert text == "bad base64 in ***"


def test_the_longer_of_two_secrets_is_replaced_whole() -> None:
    secrets = [Secret.literal("a", "pass"), Secret.literal("b", "password")]
    assert redact("password", secrets) == "***"


def test_an_empty_or_unresolvable_secret_leaves_the_text_alone() -> None:
    secrets = [Secret.literal("a", ""), Secret.parse("b", "${env:HELIO_ABSENT}")]
    assert redact("plain words", secrets) == "plain words"
