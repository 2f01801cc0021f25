"""Values for the fields of any model: random ones, and ones that are full of secrets."""

from __future__ import annotations

import base64
import types
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Union, get_args, get_origin

from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from kubeauth import Secret, schemas
from kubeauth._secret import HiddenDict
from kubeauth.schemas import Model
from tests.support.leaks import ENCODED, SENTINEL

MODELS: list[type[Model]] = [
    value
    for name in schemas.__all__
    if isinstance(value := getattr(schemas, name), type) and issubclass(value, Model) and value is not Model
]

TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda children: st.lists(children, max_size=2) | st.dictionaries(TEXT, children, max_size=2),
    max_leaves=4,
)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC))
STRATEGIES: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    bool: st.booleans(),
    int: st.integers(0, 2**31),
    float: st.integers(-(2**20), 2**20).map(lambda quarters: quarters / 4),  # durations, exactly
    bytes: st.binary(max_size=6),
    Secret[str]: TEXT.map(Secret),
    Secret[bytes]: st.binary(max_size=6).map(Secret),
    datetime: TIMES,
    Any: JSON,
}


def is_head(name: str, field: FieldInfo) -> bool:
    """Whether a field has one valid value, such as `kind`."""
    return name in ("api_version", "kind") and isinstance(field.default, str) and field.default != ""


def build_strategy(model: type[Model]) -> st.SearchStrategy[Model]:
    """Instances of a model with random values in any of its fields."""
    fields = {
        name: _build_field_strategy(field)
        for name, field in model.model_fields.items()
        if not is_head(name, field)
    }
    return st.fixed_dictionaries({}, optional=fields).map(lambda values: model(**values))


def _build_field_strategy(field: FieldInfo) -> st.SearchStrategy[Any]:
    if isinstance(field.json_schema_extra, dict) and (allowed := field.json_schema_extra.get("enum")):
        assert isinstance(allowed, list)
        return st.sampled_from(allowed)
    return _build_value_strategy(field.annotation)


def _build_value_strategy(kind: Any) -> st.SearchStrategy[Any]:
    if kind in STRATEGIES:
        return STRATEGIES[kind]
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        return st.lists(_build_value_strategy(arguments[0]), max_size=3).map(tuple)
    if get_origin(kind) is Mapping:
        return st.dictionaries(TEXT, _build_value_strategy(arguments[1]), max_size=3)
    if get_origin(kind) in (types.UnionType, Union):
        return st.none() | _build_value_strategy(arguments[0])
    assert issubclass(kind, Model), kind
    return st.deferred(lambda: build_strategy(kind))


def fill_document(model: type[Model], *, text: str = SENTINEL) -> dict[str, Any]:
    """A document with a secret in every field of a secret type, and `text` in the other ones."""
    return {
        field.serialization_alias or name: field.default if is_head(name, field) else _fill_field(field, text)
        for name, field in model.model_fields.items()
    }


def _fill_field(field: FieldInfo, text: str) -> Any:
    for item in field.metadata:
        if key := getattr(item, "_key", None):  # NamedEntries
            return [{"name": text, key: _fill_value(get_args(field.annotation)[1], text)}]
        if getattr(item, "_build", None) is HiddenDict:
            return {"k": SENTINEL}
    return _fill_value(field.annotation, text)


def _fill_value(kind: Any, text: str) -> Any:
    arguments = get_args(kind)
    constants: dict[Any, Any] = {
        bool: True,
        int: 1,
        float: "12h",
        str: text,
        Any: text,
        bytes: base64.b64encode(text.encode()).decode(),
        datetime: "2030-01-02T15:04:05Z",
        Secret[str]: SENTINEL,
        Secret[bytes]: ENCODED,
    }
    if kind in constants:
        return constants[kind]
    if get_origin(kind) is tuple:
        return [_fill_value(arguments[0], text)]
    if get_origin(kind) is Mapping:
        return {"k": _fill_value(arguments[1], text)}
    if get_origin(kind) in (types.UnionType, Union):
        return _fill_value(arguments[0], text)
    return fill_document(kind, text=text)


def change_each_value(document: Any, change: Callable[[Any], Any]) -> list[Any]:
    """Copies of a document in which one value is changed, for every value."""
    if isinstance(document, dict):
        return [
            {**document, name: changed}
            for name, item in document.items()
            for changed in [change(item), *change_each_value(item, change)]
        ]
    if isinstance(document, list):
        return [
            [changed] for item in document for changed in [change(item), *change_each_value(item, change)]
        ]
    return []
