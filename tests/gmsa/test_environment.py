"""What the environment says about the webhook."""

from __future__ import annotations

import logging

import pytest

from kubeauth.errors import ConfigError
from kubeauth.gmsa._environment import Settings, settings_of
from tests.support.cases import each_case

FILES = {"TLS_CRT": "/tls/tls.crt", "TLS_KEY": "/tls/tls.key"}
DEFAULT = Settings(certificate_file="/tls/tls.crt", key_file="/tls/tls.key")


def test_what_is_not_said_has_a_default_b76() -> None:
    assert settings_of(FILES) == DEFAULT
    assert (DEFAULT.port, DEFAULT.qps, DEFAULT.burst, DEFAULT.random_hostname, DEFAULT.log_level) == (
        443, None, 10, False, logging.INFO,
    )  # fmt: skip


def test_all_of_it_is_read_b76() -> None:
    given = {
        "HTTPS_PORT": "8443",
        "QPS": "3.14",
        "BURST": "50",
        "RANDOM_HOSTNAME": "true",
        "LOG_LEVEL": "Trace",
    }
    settings = settings_of({**FILES, **given, "OTHER": "x"})
    assert (settings.port, settings.qps, settings.burst) == (8443, 3.14, 50)
    assert (settings.random_hostname, settings.log_level) == (True, logging.DEBUG)


@each_case("missing", FILES)
@each_case("value", [None, ""])
def test_both_files_must_be_named_b76(missing: str, value: str | None) -> None:
    environ = {key: path for key, path in FILES.items() if key != missing}
    with pytest.raises(ConfigError, match=f"{missing} must be set"):
        settings_of(environ if value is None else {**environ, missing: value})


@each_case(
    ("name", "text"),
    [
        ("HTTPS_PORT", "https"), ("HTTPS_PORT", "0"), ("HTTPS_PORT", "65536"), ("HTTPS_PORT", ""), ("QPS", "fast"),
        ("QPS", "nan"), ("QPS", "inf"), ("QPS", "-1"), ("QPS", "0"), ("BURST", "1.5"), ("BURST", "0"), ("BURST", "many"),
        ("LOG_LEVEL", "loud"), ("LOG_LEVEL", ""),
    ],
)  # fmt: skip
def test_a_number_that_is_none_is_a_warning_b76(
    name: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert settings_of({**FILES, name: text}) == DEFAULT
    (record,) = caplog.records
    assert (record.levelno, name in record.getMessage(), text in record.getMessage()) == (
        logging.WARNING,
        True,
        True,
    )


@each_case("text", ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"])
def test_booleans_are_those_of_go_b76(text: str) -> None:
    assert settings_of({**FILES, "RANDOM_HOSTNAME": text}).random_hostname == (text[0] in "1tT")


@each_case("text", ["", "yes", "on", "tRUE", " true", "2", "x\n" + "y" * 500])
def test_another_boolean_ends_it_b76(text: str) -> None:
    with pytest.raises(ConfigError, match="RANDOM_HOSTNAME must be true or false") as caught:
        settings_of({**FILES, "RANDOM_HOSTNAME": text})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 150


@each_case(
    ("text", "level"), [("panic", 50), ("fatal", 50), ("ERROR", 40), ("warn", 30), ("Warning", 30), ("info", 20), ("debug", 10)]
)  # fmt: skip
def test_levels_are_those_of_logrus_b76(text: str, level: int) -> None:
    assert settings_of({**FILES, "LOG_LEVEL": text}).log_level == level
