"""No message and no repr holds what may be a secret."""

import pytest

from heliograph.config.load import load
from heliograph.errors import ConfigError
from tests.unit.config.sample import BASE


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(text)
    head, *lines = refused.value.message.split("\n  - ")
    assert head == "heliograph.yaml cannot be used as written:"
    return lines


SECRET = "Hunter2Hunter2"


@pytest.mark.parametrize(
    "written",
    [
        f"sasl.password: *{SECRET}",
        f"sasl.password: &{SECRET}",
        f"sasl.password: &{SECRET} {{a: &{SECRET} b}}",
        f"sasl.password: !{SECRET}",
        f"sasl.password: !{SECRET}!x y",
        f"sasl.password: %{SECRET}",
        f"sasl.password: @{SECRET}",
        f"sasl.password: `{SECRET}",
        f"sasl.password: [{SECRET}",
        f"sasl.password: {{{SECRET}",
        f"sasl.password: '{SECRET}",
        f'sasl.password: "{SECRET}',
        f'sasl.password: "\\{SECRET}"',
        f"sasl.password: a: {SECRET}",
        f"sasl.password: |{SECRET}",
        f"sasl.password={SECRET}",
        f"sasl.password={SECRET}: 1",
        f"sasl.password {SECRET}: 1",
        f"{{sasl.password: {SECRET}}}: 1",
        f"- {SECRET}",
        f"[{SECRET}]",
        f"allow_literal_secrets: !x {SECRET[0]}\n    sasl.password: {SECRET}",
    ],
)
def test_no_message_holds_a_password(written: str) -> None:
    text = f"clusters:\n  paris:\n    {written}\n{BASE.removeprefix('clusters:')}"
    with pytest.raises(ConfigError) as refused:
        load(text)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_value_in_the_wrong_place_is_not_shown() -> None:
    for added in (
        f"    sasl.password: {SECRET}\n",
        f"spark: {{conf: {{password: {SECRET}}}}}\n",
        f"    transform: [{{msk: {SECRET}}}]\n",
        f"    hooks: {{before_promot: [{SECRET}]}}\n",
    ):
        assert SECRET not in "".join(mistakes(BASE + added))


def test_no_secret_shows_in_the_settings_themselves() -> None:
    text = BASE.replace("servers: ", f"servers: x:1, sasl.password: {SECRET}, x: ", 1)
    text += f"    hooks: {{before_promote: [x {SECRET}]}}\n"
    text += f"    transform: [{{sql: {SECRET}}}]\nspark: {{conf: {{spark.password: {SECRET}}}}}\n"
    config = load(text)
    assert config.clusters["paris"].properties["sasl.password"] == SECRET
    assert SECRET not in repr(config)


def test_the_dashboards_token_is_shown_nowhere() -> None:
    config = load(BASE + f"dashboard: {{token: {SECRET}, allow_literal_secrets: true}}\n")
    assert config.dashboard.token == SECRET and SECRET not in repr(config)
    for wrong in (f"token: [{SECRET}]", f"token: {{{SECRET}: 1}}", f"tokens: {SECRET}"):
        assert SECRET not in "".join(mistakes(BASE + f"dashboard: {{{wrong}}}\n"))
