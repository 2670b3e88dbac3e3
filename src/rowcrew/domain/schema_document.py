"""What a schema document says by itself: its references, its names. It compiles and fetches nothing."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import jsonschema_rs

from rowcrew.errors import InvalidRequest

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
# The drafts that the library carries within it; any other dialect it would go and fetch.
_DRAFTS = re.compile(
    r"https?://json-schema\.org/(draft-0[467]/schema|draft/(2019-09|2020-12)/schema)#?", re.ASCII
)
# Under these a schema holds plain values, in which nothing is a reference.
_VALUES = frozenset({"const", "enum", "default", "examples"})
# Under these it holds a mapping from free names to schemas.
_MAPS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_FOLLOWED = 100


def iter_schemas(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every object of the document that stands where a schema stands. Without recursion: it may be deep."""
    waiting: list[tuple[object, bool]] = [(document, False)]
    while waiting:
        node, is_map = waiting.pop()
        if isinstance(node, list):
            waiting.extend((part, False) for part in node)
        elif isinstance(node, dict):
            if not is_map:
                yield node
            waiting.extend(
                (part, not is_map and key in _MAPS)
                for key, part in node.items()
                if is_map or key not in _VALUES
            )


def refuse_references_elsewhere(document: dict[str, Any]) -> None:
    """Raises InvalidRequest for a reference out of the document, and a dialect that is not known."""
    for schema in iter_schemas(document):
        dialect = schema.get("$schema")
        if isinstance(dialect, str) and not _DRAFTS.fullmatch(dialect):
            raise InvalidRequest(
                f"the output schema is written in {dialect!r}, which is none of the known drafts",
                hint="leave `$schema` out, or name draft 4, 6, 7, 2019-09 or 2020-12",
            )
        for target in _targets(schema):
            if not target.startswith("#"):
                raise InvalidRequest(
                    f"the output schema refers to {target!r}; only references inside it (`#/…`) are followed",
                    hint="copy that schema under `$defs` and refer to it as `#/$defs/NAME`",
                )


def refuse_what_is_broken_unused(document: dict[str, Any]) -> None:
    """The library compiles what the top level leads to; a part that nothing uses must be whole too.

    Raises InvalidRequest for a reference that points nowhere and a regular expression that does not compile.
    """
    # A schema with an id of its own is a document within the document: what `#` is, the library knows there.
    nested = any(
        schema is not document and ("$id" in schema or "id" in schema) for schema in iter_schemas(document)
    )
    for schema in iter_schemas(document):
        for target in () if nested else _targets(schema):
            if pointed_at(document, target) is None:
                raise InvalidRequest(
                    f"the output schema refers to {target!r}, and there is nothing in it",
                    hint="a reference is a path such as `#/$defs/NAME`",
                )
        for pattern in _patterns(schema):
            try:
                jsonschema_rs.validator_for({"pattern": pattern})
            except ValueError as error:
                raise InvalidRequest(
                    f"the output schema has a regular expression that does not compile: {pattern!r}"
                ) from error


def _targets(schema: dict[str, Any]) -> list[str]:
    return [target for keyword in _REFERENCES if isinstance(target := schema.get(keyword), str)]


def _patterns(schema: dict[str, Any]) -> list[str]:
    pattern, by_name = schema.get("pattern"), schema.get("patternProperties")
    found = [pattern] if isinstance(pattern, str) else []
    return [*found, *by_name] if isinstance(by_name, dict) else found


def refuse_what_is_never_an_object(document: dict[str, Any]) -> None:
    """Raises InvalidRequest where it is plain that no object can fit: results are always objects."""
    if _is_never_an_object(document, document, {}, 0):
        what = f"for {document['type']!r}" if "type" in document else "such that no JSON object can fit it"
        raise InvalidRequest(
            f"the output schema is {what}, but a result is always a JSON object",
            hint='make its top level {"type": "object", "properties": …}',
        )


def _is_never_an_object(schema: object, document: dict[str, Any], known: dict[int, bool], depth: int) -> bool:
    """`known` has the answer for each part that was looked at: every part is, once."""
    if not isinstance(schema, dict) or depth > _FOLLOWED:
        return schema is False
    if id(schema) not in known:
        # While it is being looked at it leads to itself at most, and that refuses nothing.
        known[id(schema)] = False

        def never(part: object) -> bool:
            return _is_never_an_object(part, document, known, depth + 1)

        target = schema.get("$ref")
        known[id(schema)] = (
            _names_no_object(schema)
            or (isinstance(target, str) and never(pointed_at(document, target)))
            or any(never(part) for part in schema.get("allOf", ()))
            or any(word in schema and all(map(never, schema[word])) for word in ("anyOf", "oneOf"))
        )
    return known[id(schema)]


def _names_no_object(schema: dict[str, Any]) -> bool:
    types = schema.get("type", "object")
    if "object" not in ([types] if isinstance(types, str) else types):
        return True
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return values is not None and not any(isinstance(value, dict) for value in values)


def property_names(document: dict[str, Any]) -> tuple[str, ...]:
    """What every result may have at its top level, also through local references and `allOf` there."""
    names: dict[str, None] = {}
    seen: set[int] = set()
    waiting: list[object] = [document]
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        properties = schema.get("properties")
        if isinstance(properties, dict):
            names.update(dict.fromkeys(properties))
        target = schema.get("$ref")
        further = [
            *schema.get("allOf", ()),
            pointed_at(document, target) if isinstance(target, str) else None,
        ]
        waiting.extend(reversed(further))
    return tuple(names)


def pointed_at(document: dict[str, Any], reference: str) -> object:
    """What a JSON pointer (RFC 6901) or an anchor leads to; None where there is nothing."""
    fragment = unquote(reference.removeprefix("#"))
    if fragment and not fragment.startswith("/"):
        return next(
            (found for found in iter_schemas(document) if fragment in map(found.get, _ANCHORS)),
            None,
        )
    node: object = document
    for part in fragment.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            node = node[int(key)] if key.isascii() and key.isdigit() and int(key) < len(node) else None
        else:
            node = node.get(key) if isinstance(node, dict) else None
    return node
