"""CredentialProviders: which providers are asked, how, and what becomes of their answers."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kubeauth.errors import ConfigError, ProviderConfigError, ProviderError, RegistryError
from kubeauth.registry._providers import CredentialProviders, Lookup, ProviderAnswer, repository_of
from kubeauth.testing import FakeClock, ProviderScript
from tests.registry.providers import (
    IMAGE,
    HeldProvider,
    Watching,
    config_of,
    entry_of,
    providers_of,
    says,
    script_of,
)

HOST = {"test.registry.io": ("user", "password")}


@pytest.fixture
def script(tmp_path: Path) -> ProviderScript:
    script = ProviderScript(tmp_path)
    script.answer(HOST)
    return script


def failure_of(found: Lookup) -> ProviderError:
    (failure,) = found.failures
    return failure


class TestRegistration:
    """1.40-1.43."""

    def test_the_directory_of_programs_must_be_there_1_40(self, tmp_path: Path) -> None:
        # Before the configuration is read, which is not there either.
        with pytest.raises(ProviderConfigError, match=r"plugin binary directory .* did not exist"):
            CredentialProviders(tmp_path / "none.json", tmp_path / "none")
        for bad in ("", "a\0b"):
            with pytest.raises(ProviderConfigError, match="plugin binary directory"):
                CredentialProviders(tmp_path / "none.json", bad)

    def test_a_program_must_be_there_and_executable_1_40_1_41(
        self, script: ProviderScript, tmp_path: Path
    ) -> None:
        (tmp_path / "plain").write_text("#!/bin/sh\n")
        (tmp_path / "folder").mkdir()
        names = ["missing", "plain", "folder", "", "provider"]
        watching = Watching()
        config = config_of(tmp_path, *(script.entry(["a.io"], name=name) for name in names))
        with pytest.raises(ProviderConfigError) as caught:
            CredentialProviders(config, tmp_path, observer=watching)
        assert isinstance(caught.value, ConfigError)
        # All of them are told, and an empty name is one of them (1.41).
        assert [problem.message.split('"')[1] for problem in caught.value.problems] == [
            str(tmp_path / name) if name else f"{tmp_path}/" for name in names[:-1]
        ]
        # 6.3: the configuration was accepted all the same.
        assert [names for _, names in watching.configs] == [names]

    def test_a_configuration_that_is_refused_is_not_shown(self, tmp_path: Path) -> None:
        """6.3."""
        watching = Watching()
        with pytest.raises(ProviderConfigError):
            CredentialProviders(config_of(tmp_path), tmp_path, observer=watching)
        assert watching.configs == []

    def test_path_is_never_searched(
        self, script: ProviderScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """1.42: a relative directory is that of the moment, and stays it."""
        config = config_of(tmp_path, script.entry(["test.registry.io"]))
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.chdir(elsewhere)
        with pytest.raises(ProviderConfigError, match="did not exist"):
            CredentialProviders(config, ".")
        monkeypatch.chdir(tmp_path)
        providers = CredentialProviders(config, ".")
        monkeypatch.chdir(elsewhere)
        assert len(providers.credentials(IMAGE)) == 1

    def test_providers_are_asked_in_the_order_of_the_configuration(self, tmp_path: Path) -> None:
        """1.43, 5.2: nothing is overwritten, and the first is tried first."""
        scripts = [ProviderScript(tmp_path, name) for name in ("zeta", "alpha")]
        for script in scripts:
            script.answer({"test.registry.io": (script.path.name, "p")})
        found = providers_of(*scripts).lookup(IMAGE)
        assert [credential.username for credential in found.credentials] == ["zeta", "alpha"]
        assert [answer.provider for answer in found.answers] == ["zeta", "alpha"]

    def test_the_configuration_can_be_looked_at(self, script: ProviderScript) -> None:
        watching = Watching()
        providers = providers_of(script, observer=watching)
        assert [provider.name for provider in providers.config.providers] == ["provider"]
        assert watching.configs == [(providers.config.hash, ["provider"])]
        assert repr(providers) == "CredentialProviders(['provider'])"


PROVIDE = [
    # PT Provide: name, pattern, image, cacheKeyType, key of auth
    ("exact, Registry key", "test.registry.io", IMAGE, "Registry", "test.registry.io"),
    ("exact, Image key", "test.registry.io/foo/bar", IMAGE, "Image", "test.registry.io/foo/bar"),
    ("exact, Global key", "test.registry.io", "test.registry.io/x", "Global", "test.registry.io"),
    ("wildcard, Registry key", "*.registry.io:8080", "test.registry.io:8080/foo", "Registry", "*.registry.io:8080"),
    ("wildcard, Image key", "*.*.registry.io", "foo.bar.registry.io/foo/bar", "Image", "*.*.registry.io"),
    ("wildcard, Global key", "*.registry.io", "test.registry.io/x", "Global", "*.registry.io"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "image", "kind", "key"), [case[1:] for case in PROVIDE], ids=[case[0] for case in PROVIDE]
)
def test_provide(pattern: str, image: str, kind: str, key: str, script: ProviderScript) -> None:
    """PT Provide; and 4.13: what is kept is given without a run."""
    script.answer({key: ("user", "password")}, cache_key_type=kind)
    watching = Watching()
    providers = providers_of(script, match=[pattern], observer=watching)
    for from_cache in (False, True):
        found = providers.lookup(image)
        (answer,) = found.answers
        assert (answer.matched, answer.from_cache, answer.service_account) == (True, from_cache, None)
        (credential,) = found.credentials
        assert (credential.username, credential.password) == ("user", "password")
        assert (credential.key, credential.source) == (key, "provider provider")
    assert len(script.runs) == 1
    assert watching.ran == [("provider", False)]


def test_a_provider_without_a_pattern_for_the_image_is_not_run(script: ProviderScript) -> None:
    """2.8, 5.9."""
    found = providers_of(script).lookup("other.registry.io/x")
    assert found == Lookup("other.registry.io/x", (), (ProviderAnswer("provider"),))
    assert script.runs == []


def test_any_of_several_patterns_will_do_and_it_is_run_once(script: ProviderScript) -> None:
    providers = providers_of(script, match=["nowhere.io", "*.registry.io", "test.registry.io"])
    assert len(providers.credentials(IMAGE)) == 1
    assert len(script.runs) == 1


class TestImages:
    """3.3, 7: what a provider sees."""

    @pytest.mark.parametrize(
        ("image", "asked"),
        [
            ("nginx:1.25", "docker.io/library/nginx"),
            ("docker.io/team/app@sha256:" + "0" * 64, "docker.io/team/app"),
            ("index.docker.io/nginx", "docker.io/library/nginx"),
            ("localhost:5000/app:1", "localhost:5000/app"),
            # RegistryAuth asks so where a request names no repository.
            ("quay.io/", "quay.io/"),
            ("localhost:5000/", "localhost:5000/"),
            ("index.docker.io/", "docker.io/"),
        ],
    )
    def test_the_repository_alone_3_3(self, image: str, asked: str, script: ProviderScript) -> None:
        assert repository_of(image) == asked
        providers = providers_of(script, match=["docker.io", "*:5000", "quay.io"])
        assert providers.lookup(image).image == asked
        assert script.runs[0].request["image"] == asked

    @pytest.mark.parametrize("image", ["", "ROOT", "https://gcr.io/x", "team/", "a.io/b/", "/", "a b.io/"])
    def test_what_is_no_image_is_an_error(self, image: str, script: ProviderScript) -> None:
        providers = providers_of(script)
        with pytest.raises(RegistryError):
            providers.credentials(image)
        with pytest.raises(RegistryError):
            asyncio.run(providers.acredentials(image))


ENVIRONMENTS = [
    # PT EnvVars: name, host, config, expected
    ("append", {"FOO": "foo"}, [("BAR", "bar")], {"FOO": "foo", "BAR": "bar"}),
    ("no config vars", {"FOO": "foo"}, [], {"FOO": "foo"}),
    ("no host vars", {}, [("BAR", "bar")], {"BAR": "bar"}),
    ("none", {}, [], {}),
    ("conflict", {"FOO": "host"}, [("FOO", "first"), ("FOO", "$last")], {"FOO": "$last"}),
]  # fmt: skip


class TestRun:
    """3.1-3.9."""

    @pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
    def test_the_request(self, version: str, script: ProviderScript) -> None:
        """3.1, 3.2."""
        version = f"credentialprovider.kubelet.k8s.io/{version}"
        assert len(providers_of(script, apiVersion=version).credentials(IMAGE)) == 1
        request = {"kind": "CredentialProviderRequest", "apiVersion": version, "image": IMAGE}
        assert script.runs[0].request == request

    def test_arguments_are_passed_on_as_they_are(self, script: ProviderScript) -> None:
        """3.4: no shell, no expansion."""
        arguments = ["get-credentials", "$HOME", "a b", "*", "ümlaut", ""]
        providers_of(script, args=arguments).credentials(IMAGE)
        assert script.runs[0].arguments == arguments

    def test_the_program_is_called_by_its_path_and_runs_where_we_are(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "provider"
        path.write_text('#!/bin/sh\ncat >/dev/null\necho "$0 $(pwd)" >&2\nexit 3\n')
        path.chmod(0o700)
        monkeypatch.chdir(tmp_path)
        providers = CredentialProviders(config_of(tmp_path, entry_of("provider")), ".")
        assert failure_of(providers.lookup(IMAGE)).stderr_tail == f"{path} {tmp_path}"

    @pytest.mark.parametrize(
        ("host", "config", "expected"),
        [case[1:] for case in ENVIRONMENTS],
        ids=[case[0] for case in ENVIRONMENTS],
    )
    def test_env_vars(
        self, host: dict[str, str], config: list[tuple[str, str]], expected: dict[str, str], script: ProviderScript
    ) -> None:  # fmt: skip
        """3.5: later ones win, and nothing else is added."""
        env = [{"name": name, "value": value} for name, value in config]
        providers_of(script, environ=host, env=env).credentials(IMAGE)
        environment = dict(script.runs[0].environment)
        environment.pop("LC_CTYPE", None)  # Python's own
        assert environment == expected

    def test_it_inherits_the_environment_of_the_moment(
        self, script: ProviderScript, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        providers = providers_of(script)
        monkeypatch.setenv("SET_LATER", "yes")
        providers.credentials(IMAGE)
        assert script.runs[0].environment["SET_LATER"] == "yes"
        assert "KUBERNETES_EXEC_INFO" not in script.runs[0].environment

    @pytest.mark.parametrize("code", [1, 7])
    def test_another_exit_code_than_0_is_a_failure(self, code: int, script: ProviderScript) -> None:
        """3.8, 6.1: what it printed does not count."""
        script.answer(stdout=says(), stderr="no role\n\x1b[2J", exit_code=code)
        watching = Watching()
        found = providers_of(script, observer=watching).lookup(IMAGE)
        failure = failure_of(found)
        assert found.credentials == ()
        assert (failure.provider, failure.reason, failure.exit_code) == ("provider", "exit", code)
        assert failure.stderr_tail == "no role\nU+001B[2J"
        assert f"gave no credentials for {IMAGE}: it failed with exit code {code}\nstderr:\n  no role" in str(
            failure
        )
        assert watching.ran == [("provider", True)]

    def test_silence_is_told_too(self, script: ProviderScript) -> None:
        script.answer(exit_code=1)
        assert f"It printed nothing to stderr; run {script.path} by hand" in str(
            failure_of(providers_of(script).lookup(IMAGE))
        )

    def test_a_signal_is_a_failure(self, tmp_path: Path) -> None:
        script_of(tmp_path / "provider", "os.kill(os.getpid(), 9)")
        providers = CredentialProviders(config_of(tmp_path, entry_of("provider")), tmp_path)
        failure = failure_of(providers.lookup(IMAGE))
        assert (failure.reason, failure.exit_code) == ("exit", -1)
        assert "(killed by a signal)" in str(failure)

    def test_one_that_cannot_be_started_is_a_failure(self, script: ProviderScript) -> None:
        watching = Watching()
        providers = providers_of(script, observer=watching)
        script.path.write_text("#!/nowhere/python\n")
        failure = failure_of(providers.lookup(IMAGE))
        assert (failure.reason, failure.exit_code) == ("start", None)
        assert "check that the interpreter in its first line does" in str(failure)
        assert isinstance(failure.__cause__, OSError)
        assert watching.ran == [("provider", True)]

    @pytest.mark.parametrize(
        "fields", [{"args": ["a\0s3ntinel"]}, {"env": [{"name": "a=b", "value": "s3ntinel"}]}]
    )
    def test_what_no_program_can_be_given_is_a_failure(
        self, fields: dict[str, Any], script: ProviderScript
    ) -> None:
        """1.26: the kubelet finds out when it runs it, too."""
        failure = failure_of(providers_of(script, **fields).lookup(IMAGE))
        assert failure.reason == "start"
        assert "is invalid" in str(failure)
        assert "s3ntinel" not in str(failure)
        assert failure.__cause__ is None

    def test_its_stderr_is_not_ours(self, script: ProviderScript, capfd: pytest.CaptureFixture[str]) -> None:
        """3.9."""
        script.answer(HOST, stderr="a warning\n")
        assert len(providers_of(script).credentials(IMAGE)) == 1
        script.answer(stderr="an error\n", exit_code=1)
        providers_of(script).credentials(IMAGE)
        assert capfd.readouterr().err == ""

    def test_one_that_does_not_read_its_stdin_is_fine(self, tmp_path: Path) -> None:
        script_of(tmp_path / "provider", f"os.close(0); print({says()!r})")
        providers = CredentialProviders(config_of(tmp_path, entry_of("provider")), tmp_path)
        assert len(providers.credentials(IMAGE)) == 1

    def test_one_that_prints_without_end_is_ended(self, tmp_path: Path) -> None:
        script_of(tmp_path / "provider", "while True: print('x' * 65536)")
        watching = Watching()
        config = config_of(tmp_path, entry_of("provider"))
        failure = failure_of(CredentialProviders(config, tmp_path, observer=watching).lookup(IMAGE))
        assert (failure.reason, "more than 1 MiB" in str(failure)) == ("output", True)
        assert watching.ran == [("provider", True)]


BAD = [
    ("empty", ""),
    ("not JSON", "registry: s3ntinel"),
    ("two", says() + says()),
    ("another version", says(apiVersion="credentialprovider.kubelet.k8s.io/v1beta1")),
    ("wrong kind", says(kind="s3ntinel")),
    ("wrong group", says(apiVersion="s3ntinel/v1")),
    ("unknown field", says({"a.io": {"username": "u", "password": "s3ntinel", "email": "s3ntinel"}})),
    ("no key type", says(cacheKeyType="")),
    ("key type in another case", says(cacheKeyType="registry")),
    ("bad duration", says(cacheDuration="s3ntinel")),
]  # fmt: skip


class TestAnswers:
    """3.10-3.17."""

    @pytest.mark.parametrize("stdout", [case[1] for case in BAD], ids=[case[0] for case in BAD])
    def test_what_is_no_answer_is_a_failure(
        self, stdout: str, script: ProviderScript, caplog: pytest.LogCaptureFixture
    ) -> None:
        """3.13: nothing of it is told. 6.1: it is not counted as one. 3.17: it is asked again the next time."""
        caplog.set_level(logging.DEBUG)
        script.answer(stdout=stdout)
        watching = Watching()
        providers = providers_of(script, observer=watching)
        for _ in range(2):
            found = providers.lookup(IMAGE)
            failure = failure_of(found)
            assert (failure.reason, failure.exit_code, found.credentials) == ("output", 0, ())
            assert "s3ntinel" not in str(failure) + repr(found) + caplog.text
        assert watching.ran == [("provider", False)] * 2

    @pytest.mark.parametrize("auth", [None, {}])
    def test_nothing_is_an_answer(self, auth: dict[str, Any] | None, script: ProviderScript) -> None:
        """4.10, 10.5: it is kept, too."""
        script.answer(auth)
        providers = providers_of(script)
        for from_cache in (False, True):
            (answer,) = providers.lookup(IMAGE).answers
            assert (answer.failure, answer.from_cache, answer.credentials) == (None, from_cache, ())
        assert len(script.runs) == 1

    def test_a_key_that_cannot_be_one_is_left_out(
        self, script: ProviderScript, caplog: pytest.LogCaptureFixture
    ) -> None:
        """5.3."""
        script.answer({"me:s3ntinel@a b": ("x", "s3ntinel"), **HOST})
        found = providers_of(script).lookup(IMAGE)
        assert [credential.username for credential in found.credentials] == ["user"]
        (answer,) = found.answers
        assert [key for key, _ in answer.skipped] == ["...@a b"]
        assert "left out the key ...@a b" in caplog.text
        assert "s3ntinel" not in caplog.text + repr(found.answers)

    def test_keys_that_do_not_match_are_harmless_and_specific_ones_come_first(self, tmp_path: Path) -> None:
        """5.5, 5.9: key order beats provider order."""
        first, second = (ProviderScript(tmp_path, name) for name in ("first", "second"))
        first.answer({"test.registry.io": ("general", "p"), "other.io": ("unrelated", "p")})
        second.answer({"https://test.registry.io/v2/foo": ("specific", "p")})
        found = providers_of(first, second).credentials(IMAGE)
        assert [credential.username for credential in found] == ["specific", "general"]

    def test_hub_credentials_under_their_old_name(self, script: ProviderScript) -> None:
        """5.7."""
        script.answer({"https://index.docker.io/v1/": ("hub", "p")})
        found = providers_of(script, match=["docker.io"]).credentials("nginx")
        assert [credential.username for credential in found] == ["hub"]

    def test_one_that_fails_does_not_keep_the_others_from_being_asked(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """3.17."""
        caplog.set_level(logging.INFO)
        bad, good = (ProviderScript(tmp_path, name) for name in ("bad", "good"))
        bad.answer(exit_code=1, stderr="boo\n")
        good.answer(HOST)
        found = providers_of(bad, good).lookup(IMAGE)
        assert [credential.username for credential in found.credentials] == ["user"]
        assert [answer.failure is None for answer in found.answers] == [False, True]
        assert [(record.name, record.levelname) for record in caplog.records] == [
            ("kubeauth.registry", "WARNING"), ("kubeauth.registry", "INFO"),
        ]  # fmt: skip
        assert caplog.messages[0].endswith("boo\nThe lookup goes on without it")
        assert caplog.messages[1].startswith(f"provider good gave 1 credentials for {IMAGE} in ")

    def test_if_all_fail_there_is_nothing_and_no_error(self, script: ProviderScript) -> None:
        script.answer(exit_code=1)
        providers = providers_of(script)
        assert providers.credentials(IMAGE) == []
        assert asyncio.run(providers.acredentials(IMAGE)) == []
        # No back-off, and no memory of failures.
        assert len(script.runs) == 2


class TestKeeping:
    """4.5-4.12."""

    @pytest.mark.parametrize(
        ("duration", "default", "seconds"),
        [
            ("60s", "10m", 60),
            (None, "10m", 600),
            ("0s", "10m", None),
            (None, "0s", None),
            ("-1m", "10m", None),
        ],
    )
    def test_how_long(
        self, duration: str | None, default: str, seconds: float | None, script: ProviderScript, clock: FakeClock
    ) -> None:  # fmt: skip
        script.answer(HOST, cache_duration=duration)
        providers = providers_of(script, clock=clock, defaultCacheDuration=default)
        providers.credentials(IMAGE)
        if seconds is not None:
            clock.advance(seconds)
            assert providers.lookup(IMAGE).answers[0].from_cache
            clock.advance(1)
        assert not providers.lookup(IMAGE).answers[0].from_cache
        assert len(script.runs) == 2

    def test_from_when_it_has_answered_4_6(self, tmp_path: Path, clock: FakeClock) -> None:
        held = HeldProvider(tmp_path)
        held.says("password", duration="60s")
        providers = providers_of(held, clock=clock)
        asking = threading.Thread(target=providers.credentials, args=(IMAGE,))
        asking.start()
        while not held.processes:
            time.sleep(0.005)
        clock.advance(50)
        held.let_go()
        asking.join()
        clock.advance(59)
        assert providers.lookup(IMAGE).answers[0].from_cache

    def test_providers_share_nothing(self, tmp_path: Path) -> None:
        """4.1. ProvidersDockerKeyring: each is asked once."""
        scripts = [ProviderScript(tmp_path, name) for name in ("one", "two")]
        for script in scripts:
            script.answer(HOST, cache_key_type="Global")
        providers = providers_of(*scripts)
        assert len(providers.credentials(IMAGE)) == 2
        assert [len(script.runs) for script in scripts] == [1, 1]

    @pytest.mark.parametrize(("kind", "runs"), [("Image", 3), ("Registry", 2), ("Global", 1)])
    def test_for_which_images(self, kind: str, runs: int, script: ProviderScript) -> None:
        script.answer(HOST, cache_key_type=kind)
        providers = providers_of(script, match=["*.registry.io"])
        for _ in range(2):
            for image in (IMAGE, "test.registry.io/other", "b.registry.io/x"):
                providers.lookup(image)
        assert len(script.runs) == runs

    def test_after_a_refusal_it_is_asked_again_but_not_for_ever(
        self, script: ProviderScript, clock: FakeClock
    ) -> None:
        providers = providers_of(script, clock=clock)
        (old,) = providers.credentials(IMAGE)
        script.answer({"test.registry.io": ("user", "new")})
        providers.refused(f"{IMAGE}:latest", old)
        (new,) = providers.credentials(IMAGE)
        assert new.password == "new"
        providers.refused(IMAGE, old)  # late
        providers.refused("elsewhere.io/x", new)
        assert providers.lookup(IMAGE).answers[0].from_cache
        providers.refused(IMAGE, new)  # too soon
        assert providers.lookup(IMAGE).answers[0].from_cache
        clock.advance(2)
        providers.refused(IMAGE, new)
        assert not providers.lookup(IMAGE).answers[0].from_cache

    def test_after_each_rotation_it_is_asked_once(self, script: ProviderScript, clock: FakeClock) -> None:
        """Kept for an hour, refused every five seconds, and the next one is welcome each time."""
        providers = providers_of(script, clock=clock)
        for number in range(12):
            script.answer({"test.registry.io": ("user", f"p{number}")})
            (credential,) = providers.credentials(IMAGE)
            if credential.password != f"p{number}":
                providers.refused(IMAGE, credential)
                (credential,) = providers.credentials(IMAGE)
            assert credential.password == f"p{number}"
            providers.accepted(f"{IMAGE}:latest", credential)
            clock.advance(5)
        assert len(script.runs) == 12


class TestClosed:
    def test_it_gives_nothing_any_more(self, script: ProviderScript) -> None:
        with providers_of(script) as providers:
            (credential,) = providers.credentials(IMAGE)
        with pytest.raises(RegistryError, match="closed"):
            providers.credentials(IMAGE)
        with pytest.raises(RegistryError, match="closed"):
            providers.refused(IMAGE, credential)
        providers.accepted(IMAGE, credential)  # the last answer may come late

    def test_it_gives_nothing_any_more_async(self, script: ProviderScript) -> None:
        async def main() -> None:
            async with providers_of(script) as providers:
                assert len(await providers.acredentials(IMAGE)) == 1
            with pytest.raises(RegistryError, match="closed"):
                await providers.alookup(IMAGE)

        asyncio.run(main())

    def test_who_was_about_to_ask_is_told(self, script: ProviderScript) -> None:
        providers = providers_of(script)
        provider = providers._providers[0]
        providers.close()
        with pytest.raises(ProviderError) as caught:
            provider.get(IMAGE, None)
        assert caught.value.reason == "closed"


def test_what_is_imported_late_is_not_imported_without_an_event_loop(script: ProviderScript) -> None:
    config = config_of(script.path.parent, script.entry(["test.registry.io"]))
    code = (
        "import sys; from kubeauth.registry._providers import CredentialProviders; "
        f"print(len(CredentialProviders({str(config)!r}, {str(config.parent)!r}).credentials({IMAGE!r}))); "
        "print('anyio._core' in sys.modules, 'httpx' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "1\nFalse False\n"
