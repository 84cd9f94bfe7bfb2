"""The document says what the table says, and only what is there."""

import json
from typing import Any

from heliograph.model.status import LinkStatus
from heliograph.web.openapi import document
from heliograph.web.page import example, page
from heliograph.web.routes import ROUTES


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        below = set().union(*map(references, value.values())) if value else set()
        return below | ({value["$ref"]} if "$ref" in value else set())
    return set().union(*map(references, value)) if isinstance(value, list) and value else set()


def test_every_route_is_in_the_document_once() -> None:
    told = document(ROUTES)
    listed = [(method.upper(), path) for path, some in told["paths"].items() for method in some]
    assert sorted(listed) == sorted((route.method, route.path) for route in ROUTES)
    json.dumps(told)


def test_every_reference_points_to_a_schema() -> None:
    told = document(ROUTES)
    found = references(told)
    assert "#/components/schemas/LinkStatus" in found
    assert {one.rpartition("/")[2] for one in found} == set(told["components"]["schemas"])


def test_a_status_has_every_key_that_is_told() -> None:
    shown = document(ROUTES)["components"]["schemas"]["LinkStatus"]["properties"]
    assert list(shown) == list(LinkStatus("a", "b", "c").as_dict())
    assert shown["lag_records"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}


def test_only_health_needs_no_token() -> None:
    told = document(ROUTES)["paths"]
    free = {path for path, some in told.items() for one in some.values() if not one["security"]}
    assert free == {"/health", "/health/live", "/health/ready"}


def test_the_page_shows_every_route_with_an_example() -> None:
    shown = page(ROUTES)
    for route in ROUTES:
        assert f"{route.method} /api/v1{route.path}" in shown
        assert example(route) in shown
