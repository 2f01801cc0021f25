from __future__ import annotations

import copy
import json
import logging
import pickle
from dataclasses import asdict, dataclass

import pytest

from kubeauth import Secret
from kubeauth._secret import FrozenDict, HiddenDict
from tests.support.cases import each_case

SENTINEL = "s3ntinel-value"


def test_only_reveal_shows_the_value() -> None:
    secret = Secret(SENTINEL)
    assert secret.reveal() == SENTINEL
    for shown in (str(secret), repr(secret), f"{secret}", f"{secret:>30}", "%s" % secret, repr([secret])):  # noqa: UP031 -- all ways to format it
        assert SENTINEL not in shown
    assert not hasattr(secret, "__dict__")


def test_logging_and_json_do_not_show_the_value(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("t").debug("a %s and %r", Secret(SENTINEL), Secret(SENTINEL.encode()))
    assert SENTINEL not in caplog.text
    with pytest.raises(TypeError):
        json.dumps(Secret(SENTINEL))


@each_case("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_a_secret_raises(protocol: int) -> None:
    with pytest.raises(TypeError, match="send the path") as caught:
        pickle.dumps(Secret(SENTINEL), protocol)
    assert SENTINEL not in str(caught.value)


def test_secrets_are_equal_by_value_and_type() -> None:
    assert Secret("a") == Secret("a")
    assert hash(Secret("a")) == hash(Secret("a"))
    assert Secret("a") != Secret("b")
    assert Secret("a") != Secret(b"a")
    assert Secret("a") != "a"
    assert Secret("\udc80") == Secret("\udc80")


def test_an_empty_secret_is_false_and_copying_returns_the_same_object() -> None:
    assert not Secret("")
    assert Secret("x")

    secret = Secret(b"k")
    assert copy.copy(secret) is secret
    assert copy.deepcopy(secret) is secret

    @dataclass
    class Holder:
        secret: Secret[bytes]

    assert asdict(Holder(secret)) == {"secret": secret}


def test_frozen_dict_is_hashable_and_immutable() -> None:
    frozen = FrozenDict({"a": 1})

    assert frozen == {"a": 1}
    assert hash(frozen) == hash(FrozenDict([("a", 1)]))
    assert (dict(frozen), len(frozen), frozen["a"], repr(frozen)) == ({"a": 1}, 1, 1, "{'a': 1}")
    assert copy.deepcopy(frozen) is frozen
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    with pytest.raises(TypeError):
        frozen["b"] = 2  # type: ignore[index]


def test_repr_of_hidden_dict_shows_names_only() -> None:
    hidden = HiddenDict({"TOKEN": SENTINEL})
    assert repr(hidden) == "<1 hidden: TOKEN>"
    assert repr(HiddenDict[str, str]()) == "{}"
