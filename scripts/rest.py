"""The page of the reference that lists the REST API, from its routing table."""

from heliograph.web.fields import Field
from heliograph.web.page import example
from heliograph.web.problems import PROBLEMS, STATUSES
from heliograph.web.routes import ROUTES
from heliograph.web.routing import PREFIX, Route
from scripts.markdown import cell, table


def rest_page() -> str:
    """Every endpoint, what it takes, and what can go wrong."""
    endpoints = ((f"`{one.method} {PREFIX}{one.path}`", cell(one.help)) for one in ROUTES)
    problems = (
        (f"`{code}`", str(status), cell(words)) for code, (status, words) in PROBLEMS.items()
    )
    errors = ((f"`{kind.code}`", str(status)) for kind, status in STATUSES)
    short = ", ".join(f"`{one.path}`" for one in ROUTES if one.is_short)
    return f"""\
# REST API

What `heliograph dashboard` serves. How to use it is in the [guide](../guide/rest.md); the same for
programs is at `{PREFIX}/openapi.json`, and for people at `{PREFIX}/docs`. Answers are JSON with the
keys of `-o json` of the commands. Also served without the prefix: {short}.

{table(("endpoint", "what it tells or does"), endpoints)}
{"".join(_route(one) for one in ROUTES if one.query or one.body or one.statuses)}\
## Problems

Any other answer is `{{"error": {{"code": …, "message": …, "remedy": …}}}}`; the remedy may be
missing. Codes of HTTP itself:

{table(("code", "status", "meaning"), problems)}
All other codes are those of [errors](errors.md). The first of these that an error is decides the
status:

{table(("error", "status"), errors)}"""


def _route(route: Route) -> str:
    text = f"## {route.method} {route.path}\n\n```sh\n{example(route)}\n```\n\n"
    given = [("query", field) for field in route.query]
    if route.body == "yaml":
        text += f"The body is a `heliograph.yaml` of at most {route.most_bytes} bytes.\n\n"
    elif route.body is not None:
        given += [("body", field) for field in route.body]
        text += f"The body is a JSON object of at most {route.most_bytes} bytes, or nothing.\n\n"
    if given:
        heads = ("name", "in", "type", "default", "meaning")
        text += f"{table(heads, (_row(place, field) for place, field in given))}\n"
    if route.statuses:
        rows = ((str(code), cell(words)) for code, words in route.statuses.items())
        text += f"{table(('status', 'meaning'), rows)}\n"
    return text


def _row(place: str, field: Field) -> tuple[str, ...]:
    default = "" if field.default is None else f"`{str(field.default).lower()}`"
    return f"`{field.name}`", place, field.type, default, cell(field.help)
