"""The base of all pydantic models, and how validation errors become problems.

As in Go, a null or absent field has the zero value of its type, types are strict, and field names are case
sensitive. A pydantic error contains the input, which may be secret, in its attributes and in the frames of
its traceback: inside kubeauth none leaves this module, and users get one without inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
    model_validator,
)
from pydantic_core import (
    InitErrorDetails,
    PydanticCustomError,
    core_schema,
)

from kubeauth._parsing.json import describe_type as describe_type
from kubeauth._parsing.json import read_json
from kubeauth._parsing.limits import MAX_PROBLEMS as MAX_PROBLEMS
from kubeauth._parsing.limits import DocumentError
from kubeauth.errors import Problem

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ModelWrapValidatorHandler

    from kubeauth._parsing import Json

REVEAL_SECRETS = "reveal_secrets"
"""Key in the context of a serialization that may write secrets."""
CONSTRUCTED = object()
"""Context of a validation by a constructor, which also accepts values that documents cannot have."""
_BY_CONSTRUCTOR = {"extra": "forbid", "by_name": True, "context": CONSTRUCTED}


class Origin(str):
    """Path of a file, as the context of a validation."""

    __slots__ = ()


def to_camel_case(name: str) -> str:
    """Return the name of a field in most Kubernetes documents."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


class Model(BaseModel):
    """Base of all models.

    Attributes have Python names (`api_version`), documents have the names of Kubernetes (`apiVersion`).
    Models are immutable; `model_copy(update=...)` returns a changed copy.

    `repr`, `str` and `model_dump()` contain `Secret` objects, never their values. JSON output of a model with
    a secret raises unless `context={"reveal_secrets": True}` is passed. A ValidationError contains no value
    of the document, but the names of fields and the keys of mappings.
    """

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="ignore",
        hide_input_in_errors=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        alias_generator=to_camel_case,
        defer_build=True,
        # A plugin of pydantic that records documents would record secrets.
        plugin_settings={"logfire": {"record": "off"}},
    )

    @model_validator(mode="wrap")
    @classmethod
    def _validate(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        # As in Go, a null field is absent, and null in place of a mapping is an empty mapping.
        if isinstance(value, dict):
            if None in value.values() or len(value) > _MAX_FIELDS:
                value = _select_fields(cls, value)
        elif value is None:
            value = {}
        try:
            return handler(value)
        except ValidationError as error:
            failure = _remove_inputs(error)
        del value
        raise failure

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Validate a document, which has the field names of Kubernetes."""
        result = _try_validate(cls, obj, options)
        # So that no traceback refers to the document.
        del obj
        if isinstance(result, Exception):
            raise result
        return result

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Validate a document in JSON. Duplicate fields are rejected, and more than a million values."""
        result = _try_validate_json(cls, json_data, options)
        del json_data
        if isinstance(result, Exception):
            raise result
        return result

    if not TYPE_CHECKING:  # type checkers derive a better signature from the fields

        def __init__(self, /, **data: Any) -> None:
            result = _try_validate(type(self), data, {"self_instance": self, **_BY_CONSTRUCTOR})
            del data
            if isinstance(result, Exception):
                raise result

        # Otherwise pydantic calls it for every model in a document, which takes longer.
        __init__.__pydantic_base_init__ = True

    if not TYPE_CHECKING:  # for type checkers, the fields of a frozen model cannot be set

        def __setattr__(self, name: str, value: Any) -> None:
            if name.startswith("_"):
                return super().__setattr__(name, value)
            del value  # pydantic's own error contains it
            details = InitErrorDetails(type="frozen_instance", loc=(name,), input=None)
            raise ValidationError.from_exception_data(type(self).__name__, [details], hide_input=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values, which are validated like arguments of the constructor."""
        copy = super().model_copy(deep=deep)
        if not update:
            return copy
        values = {
            name: getattr(copy, name) for name in type(self).model_fields if name in self.model_fields_set
        }
        result = _try_validate(type(self), {**values, **update}, _BY_CONSTRUCTOR)
        del update
        if isinstance(result, Exception):
            raise result
        for name in type(self).__private_attributes__:
            setattr(result, name, getattr(copy, name))
        return result

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        # Imported here, because it parses source files and is rarely needed.
        from kubeauth._parsing.json_schema import complete_schema

        json_schema = handler(schema)
        complete_schema(cls, handler.resolve_ref_schema(json_schema), partial=issubclass(cls, PartialModel))
        return json_schema

    def to_document(self, *, reveal_secrets: bool = False) -> dict[str, Json]:
        """Return the document with the field names of Kubernetes, without fields that are not set.

        Raises PydanticSerializationError if the model contains a secret, unless `reveal_secrets` is True.
        """
        document = self.model_dump(
            mode="json", exclude_defaults=True, context={REVEAL_SECRETS: reveal_secrets}
        )
        # What kind of document it is must be in it, also if it is the default.
        head = {
            field.serialization_alias or name: value
            for name, field in type(self).model_fields.items()
            if name in ("api_version", "kind") and (value := getattr(self, name)) and isinstance(value, str)
        }
        return {**head, **document}


# No model has so many fields: the others are unknown.
_MAX_FIELDS = 500


def _select_fields(model: type[Model], value: dict[str, Any]) -> dict[str, Any]:
    """Remove null fields, and most of the unknown fields if there are very many.

    An unknown field may be a problem, even if it is null.
    """
    names = get_field_names(model)
    selected = {name: item for name, item in value.items() if item is not None or name not in names}
    if len(selected) <= _MAX_FIELDS or model.model_config.get("extra") == "allow":
        return selected
    unknown = ((name, item) for name, item in selected.items() if name not in names)
    known = {name: item for name, item in selected.items() if name in names}
    return {**known, **dict(islice(unknown, MAX_PROBLEMS))}


@cache
def get_field_names(model: type[Model]) -> frozenset[str]:
    """Return the names of all fields, in Python and in documents."""
    fields = model.model_fields
    return frozenset([*fields, *(field.alias for field in fields.values() if field.alias)])


class PartialModel(Model):
    """Base of models of documents that have more fields, which kubeauth does not read."""


class TypeMeta(PartialModel):
    """apiVersion and kind of any document."""

    api_version: str = ""
    kind: str = ""


_Model = TypeVar("_Model", bound=Model)


def _try_validate(model: type[_Model], value: object, options: Mapping[str, Any]) -> _Model | Exception:
    # Errors are returned and not raised, so that no traceback refers to the document.
    options = {"by_alias": True, "by_name": False, **options}
    try:
        return model.__pydantic_validator__.validate_python(value, **options)  # type: ignore[no-any-return]
    except ValidationError as error:
        return _remove_inputs(error)
    except Exception as error:  # of an invalid option, or of a validator in a class of the user
        return error.with_traceback(None)


def _try_validate_json(
    model: type[_Model], data: str | bytes | bytearray, options: Mapping[str, Any]
) -> _Model | Exception:
    repeated: list[str] = []
    try:
        encoded = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)
        document = read_json(encoded, repeated=repeated)
    except DocumentError as error:
        problem = str(error)
    except TypeError as error:
        return error.with_traceback(None)
    else:
        if not repeated:
            return _try_validate(model, document, options)
        problem = "duplicate fields"
    details = InitErrorDetails(type="json_invalid", loc=(), input=None, ctx={"error": problem})
    return ValidationError.from_exception_data(model.__name__, [details], hide_input=True)


_KNOWN_ERRORS = frozenset(get_args(core_schema.ErrorType))


def _remove_inputs(error: ValidationError) -> ValidationError:
    """Return the same error without values of the document."""
    return ValidationError.from_exception_data(error.title, list(iter_details(error)), hide_input=True)


def iter_details(error: ValidationError) -> Iterator[InitErrorDetails]:
    for line in error.errors(include_url=False, include_input=False):
        kind: Any = line["type"]
        message: Any = line["msg"]
        context = line.get("ctx", {})
        if kind in _KNOWN_ERRORS:
            yield InitErrorDetails(type=kind, loc=line["loc"], input=None, ctx=context)
        else:
            custom = _build_custom_error(kind, context.get("message", message), context)
            yield InitErrorDetails(type=custom, loc=line["loc"], input=None)


def replace_fields(model: _Model, values: Mapping[str, Any]) -> _Model:
    """Return a copy with other values that are known to be valid. They are not validated."""
    return super(Model, model).model_copy(update=values)


# Problems


def validate_document(
    model: type[_Model],
    document: Json,
    *,
    origin: str = "",
    strict: bool = False,
    by_index: bool = False,
    context: object = None,
) -> _Model | Invalid:
    """Validate a document that this package has read.

    Unknown fields are ignored. With `strict`, they are reported, and list items are named by index, as in
    Kubernetes; with `by_index`, only the latter. `origin` is the path of the file, for the problems.
    """
    options = {"extra": "forbid" if strict else "ignore", "context": context}
    result = _try_validate(model, document, options)
    if isinstance(result, ValidationError):
        return Invalid(result, document, origin, by_index=strict or by_index)
    if isinstance(result, Exception):  # a bug
        raise result
    return result


# Of a mapping or list, only the first invalid value is reported at a time.
_MAX_IGNORED = 10


def validate_leniently(model: type[_Model], document: Json) -> _Model:
    """Validate a response of a server. Invalid values are ignored, as if they were absent.

    With too many of them, the model is empty. `document` may be changed.
    """
    for _ in range(_MAX_IGNORED):
        result = _try_validate(model, document, {})
        if not isinstance(result, ValidationError):
            if isinstance(result, Exception):  # a bug
                raise result
            return result
        for line in result.errors(include_url=False, include_input=False):
            if not line["loc"]:
                return model()  # it is not even a mapping
            *parents, name = line["loc"]
            value: Any = document
            for parent in parents:
                value = value[parent]
            if isinstance(name, int):
                value[name] = None  # so that the other items have the same index
            else:
                value.pop(name, None)
    return model()


class Invalid:
    """Why a document is invalid."""

    def __init__(self, error: ValidationError, document: Json, origin: str, *, by_index: bool) -> None:
        self.type_problem_count = 0
        """How many there are, including those that are not listed."""
        self.type_problems: list[Problem] = []
        """Fields of the wrong type, and unknown fields."""
        self.kind_problems: list[Problem] = []
        """apiVersion or kind of another document."""
        self.value_problems: list[Problem] = []
        """Fields of the right type with an invalid value."""
        lines = error.errors(include_url=False, include_input=False)
        if by_index:
            # As in Kubernetes, unknown fields come last. Those of outer mappings are first.
            lines.sort(key=lambda line: len(line["loc"]) if line["type"] == "extra_forbidden" else 0)
        self.first_location = lines[0]["loc"]
        """Names and indexes that lead to the first problem."""
        by_type = {_WRONG_KIND: self.kind_problems, _INVALID_VALUE: self.value_problems}
        for line in lines:
            problems = by_type.get(line["type"], self.type_problems)
            self.type_problem_count += problems is self.type_problems
            if len(problems) < MAX_PROBLEMS:
                place, value = _locate(document, line["loc"], by_index)
                message, hint = _explain(line["type"], line["msg"], line.get("ctx") or {}, value)
                problems.append(Problem(message, origin or None, place or None, hint))

    @property
    def problems(self) -> list[Problem]:
        """Problems of the types, else of the kind, else of the values."""
        return self.type_problems or self.kind_problems[:1] or self.value_problems


_STRING, _BOOLEAN, _NUMBER, _LIST, _MAPPING = "a string", "true or false", "a number", "a list", "a mapping"
_EXPECTED = {
    "string_type": _STRING,
    "bool_type": _BOOLEAN,
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
}
_WRONG_KIND, _INVALID_VALUE = "wrong_kind", "invalid_value"


def wrong_kind(message: str, hint: str) -> PydanticCustomError:
    """Return the error for a validator to raise if apiVersion or kind is of another document."""
    return _build_custom_error(_WRONG_KIND, message, {"hint": hint})


def invalid_value(message: str, hint: str) -> PydanticCustomError:
    """Return the error for a validator to raise if a value of the right type is invalid."""
    return _build_custom_error(_INVALID_VALUE, message, {"hint": hint})


def _build_custom_error(kind: Any, message: str, context: Mapping[str, Any]) -> PydanticCustomError:
    # pydantic replaces {key} in the template, one key after the other. The message may contain such text from
    # the document, so it is never the template, and it is the last key.
    others = {name: value for name, value in context.items() if name != "message"}
    return PydanticCustomError(kind, "{message}", {**others, "message": message})


class OneOf:
    """An annotation of apiVersion or kind. If the field is empty, it is the first of the allowed values."""

    def __init__(self, *allowed: str, message: str = "", hint: str = "Is this the right document?") -> None:
        self._allowed, self._message, self._hint = allowed, message, hint

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        name = handler.field_name

        def check(value: str) -> str:
            if not value or value in self._allowed:
                return value or self._allowed[0]
            message = self._message or f"{to_camel_case(str(name))} must be {' or '.join(self._allowed)}"
            raise wrong_kind(message, self._hint)

        return core_schema.no_info_after_validator_function(check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "enum": list(self._allowed)}


def _explain(kind: str, message: str, context: Mapping[str, Any], value: Json) -> tuple[str, str]:
    if kind in (_WRONG_KIND, _INVALID_VALUE):
        return message, context["hint"]
    if kind in ("extra_forbidden", "string_unicode"):  # the latter if its name has half a surrogate pair
        return "unknown field", "Check its spelling, or remove it."
    expected, actual = _EXPECTED[kind], describe_type(value)
    if value is None:  # a validator has changed the document, so the value is not known
        return f"must be {expected}", f"Write {expected} there."
    hint = f"Write {expected} there."
    if expected == _STRING and actual in (_NUMBER, _BOOLEAN):
        hint = "Put it in quotes."
    return f"must be {expected}, not {actual}", hint


def _locate(document: Json, location: tuple[int | str, ...], by_index: bool) -> tuple[str, Json]:
    """Return the path of a field, such as `users["alice"].user.exec`, and its value."""
    text = ""
    value: Any = document
    for part in location:
        # A validator may have changed the document before: there the value is not known.
        if isinstance(part, int):
            value = value[part] if isinstance(value, list) else None
            name = None if by_index or not isinstance(value, dict) else value.get("name")
            text += f'["{name}"]' if isinstance(name, str) else f"[{part}]"
        else:
            value = value.get(part) if isinstance(value, dict) else None
            text += f".{part}" if text else part
    return text, value
