"""Types of fields that pydantic does not have: base64, secrets, lists of named entries, and null as in Go."""

from __future__ import annotations

import binascii
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

from pydantic import BeforeValidator, FailFast, Field, ValidationError, WrapValidator
from pydantic_core import InitErrorDetails, PydanticKnownError, PydanticSerializationError, core_schema

from kubeauth._parsing.go import format_duration, parse_duration, parse_time
from kubeauth._parsing.models import (
    CONSTRUCTED,
    MAX_PROBLEMS,
    REVEAL_SECRETS,
    Model,
    invalid_value,
    iter_details,
)
from kubeauth._secret import FrozenDict, HiddenDict, Secret

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler

T = TypeVar("T")

Items = Annotated[
    tuple[T, ...],
    Field(strict=False),
    FailFast(),
    WrapValidator(lambda value, validate: _validate_items(value, validate)),
    BeforeValidator(lambda value: _require_list(value)),
]
"""A list of models, of which all invalid ones are reported, up to MAX_PROBLEMS."""
# The first invalid item is enough: the others usually have the same problem.
FailFastItems = Annotated[
    tuple[T, ...], Field(strict=False), FailFast(), BeforeValidator(lambda value: _require_list(value))
]
"""A list of models, of which only the first invalid one is reported."""
Strings = Annotated[
    tuple[str, ...],
    Field(strict=False),
    FailFast(),
    BeforeValidator(lambda value: _fill_items(value)),
]
"""A list of strings, of which only the first invalid one is reported."""
AllStrings = Annotated[Items[str], BeforeValidator(lambda value: _fill_items(value))]
"""A list of strings, of which all invalid ones are reported, up to MAX_PROBLEMS."""


def _require_list(value: Any) -> Any:
    # strict=False accepts tuples, and also sets and iterators.
    if isinstance(value, list | tuple):
        return value
    raise PydanticKnownError("list_type")


def _fill_items(value: Any) -> Any:
    if None in _require_list(value):
        return ["" if item is None else item for item in value]
    return value


def _validate_items(value: Any, validate: Callable[[Any], tuple[Any, ...]]) -> tuple[Any, ...]:
    """Continue after each invalid item, up to MAX_PROBLEMS. Without FailFast, a million would be reported."""
    failures: list[InitErrorDetails] = []
    start = 0
    while len(failures) < MAX_PROBLEMS:
        try:
            items = validate(value[start:] if start else value)
        except ValidationError as error:
            index = None
            for details in iter_details(error):
                index, *rest = details.get("loc", ()) or (None,)
                if isinstance(index, int):
                    details["loc"] = (start + index, *rest)
                failures.append(details)
            if not isinstance(index, int):
                break  # it is not a list
            start += index + 1
        else:
            if not failures:
                return items
            break
    raise ValidationError.from_exception_data("list", failures, hide_input=True)


def decode_base64(text: str) -> bytes:
    """Like Go, ignore line breaks and reject all other characters that are not base64. Raises ValueError."""
    return binascii.a2b_base64(text.replace("\n", "").replace("\r", ""), strict_mode=True)


_BASE64_HINT = "*-data fields contain base64-encoded PEM; for a path, use the field without -data."


def _to_text(value: Any) -> str:
    if isinstance(value, Secret):
        value = value.reveal()
    if isinstance(value, str):
        return value
    raise PydanticKnownError("string_type")


def _to_bytes(value: Any) -> bytes:
    """Decode base64, as documents have it, or return bytes unchanged."""
    if isinstance(value, Secret):
        value = value.reveal()
    if isinstance(value, bytes):
        return value
    text = _to_text(value)
    try:
        return decode_base64(text)
    except ValueError:
        raise invalid_value("not valid base64", _BASE64_HINT) from None


def _encode(value: bytes) -> str:
    return b64encode(value).decode()


def _reveal(value: Secret[str] | Secret[bytes], info: core_schema.SerializationInfo) -> str:
    _check_context(value, info)
    revealed = value.reveal()
    return _encode(revealed) if isinstance(revealed, bytes) else revealed


def _check_context(value: object, info: core_schema.SerializationInfo) -> None:
    if value and not (isinstance(info.context, Mapping) and info.context.get(REVEAL_SECRETS) is True):
        raise PydanticSerializationError(
            "the model contains secrets: to write them, pass context={'reveal_secrets': True}, or call "
            "to_document(reveal_secrets=True)"
        )


_JSON_TEXT: dict[str, Any] = {"type": "string"}
_JSON_BASE64: dict[str, Any] = {"type": "string", "contentEncoding": "base64"}


class _ScalarSchema:
    """How a type that JSON does not have is read from and written to a string."""

    def __init__(
        self,
        read: Callable[[Any], object],
        write: core_schema.SerSchema,
        json_schema: dict[str, Any],
        *,
        accept: tuple[type, ...] = (),
    ) -> None:
        """`accept` are other types that constructors accept."""
        self._read, self._write, self._json_schema, self._accept = read, write, json_schema, accept

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        if self._accept:
            return core_schema.with_info_plain_validator_function(
                self._read_constructed, serialization=self._write
            )
        return core_schema.no_info_plain_validator_function(self._read, serialization=self._write)

    def _read_constructed(self, value: Any, info: core_schema.ValidationInfo[Any]) -> object:
        return value if info.context is CONSTRUCTED and type(value) in self._accept else self._read(value)

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return dict(self._json_schema)


_WRITE_SECRET = core_schema.plain_serializer_function_ser_schema(_reveal, info_arg=True, when_used="json")
_WRITE_BASE64 = core_schema.plain_serializer_function_ser_schema(_encode, when_used="json")

Base64 = Annotated[bytes, _ScalarSchema(_to_bytes, _WRITE_BASE64, _JSON_BASE64)]
"""Bytes, as base64 in documents."""
SecretText = Annotated[
    Secret[str], _ScalarSchema(lambda value: Secret(_to_text(value)), _WRITE_SECRET, _JSON_TEXT)
]
"""A secret string."""
SecretBase64 = Annotated[
    Secret[bytes], _ScalarSchema(lambda value: Secret(_to_bytes(value)), _WRITE_SECRET, _JSON_BASE64)
]
"""Secret bytes, as base64 in documents."""


_TIME_HINT = "It must be RFC 3339 with a time zone, as 2030-01-02T15:04:05Z."


def _to_time(value: Any) -> datetime | None:
    if isinstance(value, datetime) and value.tzinfo:
        return value
    text = _to_text(value)
    try:
        return parse_time(text)
    except ValueError:
        raise invalid_value("not a time", _TIME_HINT) from None


def _format_time(value: datetime | None) -> str | None:
    return value.isoformat().replace("+00:00", "Z") if value else None


_WRITE_TIME = core_schema.plain_serializer_function_ser_schema(_format_time, when_used="json")
Time = Annotated[
    datetime | None, _ScalarSchema(_to_time, _WRITE_TIME, {"type": "string", "format": "date-time"})
]
"""A time in RFC 3339, as Go reads it; None for Go's zero time, which means that it is not set."""


def _to_duration(value: Any) -> float:
    seconds = parse_duration(_to_text(value))
    if seconds is None:
        raise invalid_value("not a duration", "Write it as 10m, 1h30m or 0s.")
    return seconds


def _format_duration(value: float | None) -> str | None:
    if value is None:
        return None
    return f"-{format_duration(-value)}" if value < 0 else format_duration(value)


_WRITE_DURATION = core_schema.plain_serializer_function_ser_schema(_format_duration, when_used="json")
Duration = Annotated[
    float | None,
    _ScalarSchema(
        _to_duration,
        _WRITE_DURATION,
        {"type": "string", "examples": ["12h", "1h30m", "0s"]},
        accept=(float, int),
    ),
]
"""Seconds, as a Go duration in documents; None if it is not set."""


def _fill_values(zero: object) -> Callable[[Any], Any]:
    def fill(value: Any) -> Any:
        if isinstance(value, dict) and None in value.values():
            return {key: zero if item is None else item for key, item in value.items()}
        # FrozenDict is no dict, which pydantic would reject.
        return dict(value) if isinstance(value, FrozenDict) else value

    return fill


class _DictSchema:
    """A mapping with arbitrary keys, whose null values are `zero`."""

    def __init__(
        self, build: type[FrozenDict[str, Any]], value_type: Any, zero: object, *, fail_fast: bool = False
    ) -> None:
        self._build, self._value_type, self._zero = build, value_type, zero
        self._fail_fast = fail_fast

    def __get_pydantic_core_schema__(
        self, _source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        items = core_schema.dict_schema(
            core_schema.str_schema(),
            handler.generate_schema(self._value_type),
            fail_fast=self._fail_fast,
        )
        filled = core_schema.no_info_before_validator_function(_fill_values(self._zero), items)
        write = core_schema.wrap_serializer_function_ser_schema(_write_dict, info_arg=True, schema=items)
        return core_schema.no_info_after_validator_function(self._build, filled, serialization=write)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        plain: Any = {key: item for key, item in schema.items() if key != "serialization"}
        return handler(plain)


def _write_dict(
    value: FrozenDict[str, Any],
    write: Callable[[dict[str, Any]], dict[str, Any]],
    info: core_schema.SerializationInfo,
) -> Mapping[str, Any]:
    if info.mode != "json":
        return value
    if isinstance(value, HiddenDict):
        _check_context(value, info)
    return write(dict(value))


def mapping_to(value_type: Any, *, zero: object = None) -> Any:
    """Return the annotation of a mapping with arbitrary keys, whose null values are `zero`.

    Only the first invalid value is reported.
    """
    return _DictSchema(FrozenDict, value_type, zero, fail_fast=True)


StringLists = Annotated[Mapping[str, tuple[str, ...]], _DictSchema(FrozenDict, Strings, ())]
"""A mapping to lists of strings."""
StringMap = Annotated[Mapping[str, str], _DictSchema(FrozenDict, str, "", fail_fast=True)]
"""A mapping to strings."""
HiddenStrings = Annotated[Mapping[str, str], _DictSchema(HiddenDict, str, "")]
"""A mapping to strings that may be secret."""


def _get_order(failure: InitErrorDetails) -> tuple[int, bool]:
    index, *rest = failure.get("loc", ()) or (0,)
    return index if isinstance(index, int) else 0, bool(rest)


class NamedEntries:
    """A mapping by name, which documents have as a list of `{"name": ..., "<key>": ...}`."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        entry_type = get_args(source)[1]
        model = entry_type if isinstance(entry_type, type) and issubclass(entry_type, Model) else None
        name = core_schema.nullable_schema(core_schema.str_schema())
        entry = handler.generate_schema(model) if model else core_schema.any_schema()
        fields = {
            "name": core_schema.typed_dict_field(name, required=False),
            self._key: core_schema.typed_dict_field(entry, required=False),
        }
        entries = core_schema.list_schema(
            core_schema.nullable_schema(core_schema.typed_dict_schema(fields)), fail_fast=True
        )

        def read(value: Any, validate: Any, info: core_schema.ValidationInfo[Any]) -> Mapping[str, Any]:
            return self._read(value, validate, info, model)

        return core_schema.with_info_wrap_validator_function(
            read,
            entries,
            serialization=core_schema.wrap_serializer_function_ser_schema(self._write, schema=entries),
        )

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        entry = schema["schema"]["items_schema"]["schema"]["fields"][self._key]["schema"]
        properties = {"name": _JSON_TEXT, self._key: handler(entry)}
        items = {
            "type": "object",
            "properties": properties,
            "required": ["name"],
            "additionalProperties": False,
        }
        return {"type": "array", "items": items}

    def _read(
        self,
        value: Any,
        validate: Callable[[Any], list[Any]],
        info: core_schema.ValidationInfo[Any],
        model: type[Model] | None,
    ) -> Mapping[str, Any]:
        if isinstance(value, Mapping) and info.context is CONSTRUCTED:
            value = [{"name": name, self._key: item} for name, item in value.items()]
        failures: list[InitErrorDetails] = []
        try:
            entries = validate(value)
        except ValidationError as error:
            failures = list(iter_details(error))
            entries = value if isinstance(value, list) else []
        found: dict[str, Any] = {}
        duplicates = 0
        for index, entry in enumerate(entries):
            if entry is not None and not isinstance(entry, dict):
                continue
            name = (entry or {}).get("name")
            name = name if isinstance(name, str) else ""
            if found.get(name) is not None:
                duplicates += 1
                if duplicates <= MAX_PROBLEMS:
                    failures.append(self._build_duplicate(name, index))
            elif entry is not None:
                item = entry.get(self._key)
                found[name] = model() if model and item is None else item
        if failures:
            # In the order of the document, and a duplicate before its other problems.
            failures.sort(key=_get_order)
            raise ValidationError.from_exception_data(self._key, failures, hide_input=True)
        return FrozenDict(found)

    def _build_duplicate(self, name: str, index: int) -> InitErrorDetails:
        # Truncated, because YAML aliases can repeat a long name thousands of times.
        message = f'duplicate name "{name:.1000}" in {self._key}s'
        error = invalid_value(message, "Remove or rename one of the two entries.")
        return InitErrorDetails(type=error, loc=(index,), input=None)

    def _write(self, value: Mapping[str, Any], write: Callable[[Any], Any]) -> Any:
        return write([{"name": name, self._key: item} for name, item in value.items()])
