"""The API as a page for people: one file, without scripts, without anything from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from heliograph import __version__
from heliograph.web.fields import Field
from heliograph.web.routing import PREFIX, Route

# What a browser may do with the page: show it.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #1b1f24; background: #fff; }
h2 { font-size: 1.05rem; margin: 2rem 0 .3rem; }
code, pre { font: .9rem/1.5 ui-monospace, monospace; }
pre { background: #f3f4f6; padding: .6rem .8rem; overflow-x: auto; border-radius: 4px; }
td, th { text-align: left; vertical-align: top; padding: .1rem 1.2rem .1rem 0; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e8eb; background: #14171a; } a { color: #8ab4f8; } pre { background: #22262b; }
}
"""


def page(routes: Sequence[Route]) -> str:
    """Return the page."""
    parts = "".join(_route(route) for route in routes)
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Heliograph API</title><style>{_STYLE}</style></head>
<body>
<h1>Heliograph API</h1>
<p>Version {escape(__version__)}. The same for programs:
<a href="{PREFIX}/openapi.json">OpenAPI</a>.
Where the server has a token, every request but those for health bears it:
<code>-H "Authorization: Bearer $TOKEN"</code>.</p>
{parts}</body>
</html>
"""


def _route(route: Route) -> str:
    given = [*route.query, *(route.body if isinstance(route.body, tuple) else ())]
    rows = "".join(_row(field) for field in given)
    table = f"<table>{rows}</table>\n" if rows else ""
    return (
        f"<h2><code>{route.method} {PREFIX}{escape(route.path)}</code></h2>\n"
        f"<p>{escape(route.help)}</p>\n{table}<pre>{escape(example(route))}</pre>\n"
    )


def _row(field: Field) -> str:
    default = "" if field.default is None else f"; {str(field.default).lower()} unless told"
    name, kind = escape(field.name), escape(field.type + default)
    return f"<tr><td><code>{name}</code></td><td>{kind}</td><td>{escape(field.help)}</td></tr>"


def example(route: Route, server: str = "http://127.0.0.1:8040") -> str:
    """Return a command line that uses a route."""
    address = server + PREFIX + route.path.replace("{link}", "paris-dublin")
    if route.body == "yaml":
        return f"curl --data-binary @heliograph.yaml {address}"
    return f"curl {address}" if route.method == "GET" else f"curl -X POST {address}"
