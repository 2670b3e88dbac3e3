"""What a schema document says by itself."""

from typing import Any

import pytest

from rowcrew.domain.schema_document import iter_schemas, pointed_at, property_names

DOCUMENT: dict[str, Any] = {
    "properties": {"$ref": {"type": "string"}, "b": {"enum": [{"not": "a schema"}]}},
    "allOf": [{"title": "first"}],
    "$defs": {"a/b~c d": {"title": "odd"}, "named": {"$anchor": "here"}},
}


def test_schemas_are_found_where_schemas_stand_and_nowhere_else() -> None:
    found = list(iter_schemas(DOCUMENT))
    assert len(found) == 6
    assert {"type": "string"} in found
    assert {"not": "a schema"} not in found


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#", DOCUMENT),
        ("#/allOf/0", {"title": "first"}),
        ("#/allOf/1", None),
        ("#/allOf/x", None),
        ("#/$defs/a~1b~0c%20d", {"title": "odd"}),
        ("#here", {"$anchor": "here"}),
        ("#there", None),
        ("#/allOf/0/title/x", None),
    ],
)
def test_a_local_reference_leads_to_its_part_or_to_nothing(reference: str, found: object) -> None:
    assert pointed_at(DOCUMENT, reference) == found


def test_names_come_in_the_order_of_the_document() -> None:
    document = {"properties": {"b": {}, "a": {}}, "allOf": [{"properties": {"c": {}, "a": {}}}]}
    assert property_names(document) == ("b", "a", "c")
