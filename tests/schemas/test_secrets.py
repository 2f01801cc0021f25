"""No secret in the repr, dump or pickle of a model, nor in any error, however it was validated."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from kubeauth.schemas import Model
from tests.schemas.examples import MODELS, change_each_value, fill_document
from tests.support.leaks import ENCODED, SENTINEL

WAYS: dict[str, Callable[[type[Model], Any], object]] = {
    "model_validate": lambda model, document: model.model_validate(document),
    "model_validate_json": lambda model, document: model.model_validate_json(json.dumps(document)),
    "constructor": lambda model, document: model(**document),
    "within another type": lambda model, document: TypeAdapter(list[model]).validate_python([document]),  # type: ignore[valid-type]
}
OURS = 2  # frames of this module, whose variables contain the document


def render(error: ValidationError, *, with_frames: bool) -> str:
    """All text that a debugger, a crash reporter or a logger can get from an error."""
    assert error.__cause__ is None
    assert error.__context__ is None
    parts = [str(error), repr(error), repr(error.errors()), error.json(), repr(pickle.dumps(str(error)))]
    parts += traceback.format_exception(error)
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)][OURS:]
    if with_frames:
        parts += [f"{name}={value!r}" for variables in frames for name, value in variables.items()]
    return "\n".join(parts)


def assert_no_secret(text: str) -> None:
    assert SENTINEL not in text
    assert ENCODED not in text


def break_value(value: object) -> object:
    """Return a value of another type that contains the secret, too."""
    return [SENTINEL] if isinstance(value, dict) else {"x": SENTINEL}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_an_error_contains_no_value_of_the_document(
    model: type[Model], way: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    document = fill_document(model)
    WAYS[way](model, document)

    failures = 0
    for broken in change_each_value(document, break_value):
        try:
            WAYS[way](model, broken)
        except ValidationError as error:
            failures += 1
            # The frames of TypeAdapter are pydantic's.
            assert_no_secret(render(error, with_frames=way != "within another type"))

    assert failures
    assert_no_secret(caplog.text)


@pytest.mark.parametrize("text", [f'{{"a": "{SENTINEL}', f"{SENTINEL}", f'{{"a": 1}}{SENTINEL}'])
def test_text_that_is_not_json_is_not_in_the_error(text: str) -> None:
    for model in MODELS:
        with pytest.raises(ValidationError, match="Invalid JSON") as caught:
            model.model_validate_json(text)
        assert_no_secret(render(caught.value, with_frames=False))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_secrets_are_not_printed_dumped_or_pickled(model: type[Model]) -> None:
    found = model.model_validate(fill_document(model, text="x"))

    for text in (repr(found), str(found), f"{found}", repr(found.model_dump()), repr(found.model_copy())):
        assert_no_secret(text)

    revealed = repr(found.to_document(reveal_secrets=True))
    if SENTINEL not in revealed and ENCODED not in revealed:
        assert pickle.loads(pickle.dumps(found)) == found
        assert found.to_document() == found.to_document(reveal_secrets=True)
        return
    writers: list[Callable[[], object]] = [
        found.model_dump_json,
        lambda: found.model_dump(mode="json"),
        lambda: found.model_dump_json(context={"reveal_secrets": "yes"}),
        found.to_document,
    ]
    for write in writers:
        with pytest.raises(PydanticSerializationError, match="contains secrets") as caught:
            write()
        assert_no_secret(str(caught.value))
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(found)
    assert model.model_validate_json(found.model_dump_json(context={"reveal_secrets": True})) == found
