"""The OpenAPI document, made from the routing table and from the classes that answers are."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from heliograph import __version__
from heliograph.web.fields import Field
from heliograph.web.routing import HTML, PREFIX, Route

_PLAIN: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
_PROBLEM = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string", "description": "Stable; see the reference."},
                "message": {"type": "string"},
                "remedy": {"type": "string"},
            },
        }
    },
}
_LINK = {
    "name": "link",
    "in": "path",
    "required": True,
    "description": "The name of a link in the configuration.",
    "schema": {"type": "string"},
}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the whole document."""
    named: dict[str, Any] = {"Problem": _PROBLEM}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, named)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Heliograph",
            "version": __version__,
            "description": "What the commands of Heliograph do, over HTTP.",
        },
        "servers": [{"url": PREFIX}],
        "paths": paths,
        "components": {
            "schemas": named,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, named: dict[str, Any]) -> dict[str, Any]:
    media = HTML if route.answer == HTML else "application/json"
    schema = {"type": "string"} if route.answer == HTML else schema_of(route.answer, named)
    told = {"content": {media: {"schema": schema}}}
    answers = {"200": {"description": "Done.", **told}}
    answers |= {str(code): {"description": text, **told} for code, text in route.statuses.items()}
    problem = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    answers["default"] = {"description": "Why it was not done.", "content": problem}
    parameters = [_LINK] if "{link}" in route.path else []
    parameters += [_query(one) for one in route.query]
    operation: dict[str, Any] = {"summary": route.help, "responses": answers}
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = _body(route.body)
    # A server without a token asks for none: both ways are given.
    operation["security"] = [] if route.is_health else [{"token": []}, {}]
    return operation


def _query(field: Field) -> dict[str, Any]:
    return {"name": field.name, "in": "query", "description": field.help, "schema": field.schema}


def _body(body: tuple[Field, ...] | str) -> dict[str, Any]:
    if isinstance(body, str):
        return {"required": True, "content": {"application/yaml": {"schema": {"type": "string"}}}}
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {field.name: field.schema for field in body},
    }
    return {"required": False, "content": {"application/json": {"schema": schema}}}


def schema_of(hint: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a type, or of a schema in which types stand.

    Classes are described in ``named`` and referred to by name.

    >>> schema_of(list[int | None], {})
    {'type': 'array', 'items': {'anyOf': [{'type': 'integer'}, {'type': 'null'}]}}
    """
    if isinstance(hint, Mapping):
        return {key: _inside(key, value, named) for key, value in hint.items()}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if is_dataclass(hint) and isinstance(hint, type):
        return _class(hint, named)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(one, named) for one in parts]}
    assert origin in (list, tuple), f"no schema for {hint}"
    return {"type": "array", "items": schema_of(parts[0], named)}


def _inside(key: str, value: Any, named: dict[str, Any]) -> Any:
    if key == "properties":
        return {name: schema_of(one, named) for name, one in value.items()}
    return schema_of(value, named) if key == "items" else value


def _class(kind: type[Any], named: dict[str, Any]) -> dict[str, Any]:
    if kind.__name__ not in named:
        hints = get_type_hints(kind)
        named[kind.__name__] = {}  # one that holds itself would not end
        named[kind.__name__] = {
            "type": "object",
            "description": " ".join((kind.__doc__ or "").replace("``", "`").split()),
            "properties": {one.name: schema_of(hints[one.name], named) for one in fields(kind)},
        }
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
