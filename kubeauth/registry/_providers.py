"""`CredentialProviders`: what the kubelet's providers give for an image (1.40-1.43, 3.17, 5.1-5.9)."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth.errors import KubeAuthError, Problem, ProviderConfigError, ProviderError, RegistryError
from kubeauth.metrics._recorder import RECORDER
from kubeauth.registry._cache import Given
from kubeauth.registry._key_index import NOTHING, KeyIndex, looked_up
from kubeauth.registry._keyring import Skipped
from kubeauth.registry._load import load_provider_config
from kubeauth.registry._observer import ProviderObserver
from kubeauth.registry._pattern_index import PatternIndex
from kubeauth.registry._provider import AskedProvider, program_path
from kubeauth.registry._reference import ImageReference
from kubeauth.registry._service_account import (
    Account,
    AsyncServiceAccountSource,
    NotAsked,
    Pod,
    ServiceAccount,
    ServiceAccountSource,
    accounts_of,
)
from kubeauth.registry._values import RegistryCredential
from kubeauth.schemas._credential_provider import CredentialProvider, CredentialProviderConfig

logger = logging.getLogger("kubeauth.registry")


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """What became of one provider in a lookup."""

    provider: str
    """Its name."""
    matched: bool = False
    """Whether one of its patterns matches the image. If none does, it is not asked."""
    failure: ProviderError | None = None
    """Why it gave nothing, if it was asked and failed."""
    not_asked: str = ""
    """Why it was not asked, though it matches: it needs a service account, or an annotation of it."""
    from_cache: bool = False
    """Whether it was not run for this: it had said so before."""
    service_account: ServiceAccount | None = None
    """For whom it was asked; None if for nobody in particular."""
    credentials: tuple[RegistryCredential, ...] = ()
    """All that it gave, also for other images than this."""
    skipped: tuple[Skipped, ...] = ()
    """Keys it gave that cannot be one, and why."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What there is for an image, and how that came about."""

    image: str
    """As the providers are asked about it: `docker.io/library/nginx`."""
    credentials: tuple[RegistryCredential, ...]
    """To be tried in this order. None at all: the kubelet pulls as nobody."""
    answers: tuple[ProviderAnswer, ...] = field(repr=False)
    """One for each provider of the configuration, in its order."""

    @property
    def failures(self) -> tuple[ProviderError, ...]:
        """Of those providers that failed."""
        return tuple(answer.failure for answer in self.answers if answer.failure is not None)


_Asked = tuple[ProviderAnswer, KeyIndex]
"""What became of a provider, and all that it gave, by key."""


class CredentialProviders:
    """Runs image credential providers as the kubelet does, and keeps what they give for as long.

        with CredentialProviders("/etc/kubernetes/providers.yaml", "/usr/libexec/providers") as providers:
            for credential in providers.credentials("123456789012.dkr.ecr.eu-west-1.amazonaws.com/app:1.2"):
                ...

    `config_path` is a file, or a directory of them; the programs are in `bin_dir`, under the names of their
    providers. ProviderConfigError, with all that is wrong, if one of them cannot be used.

    `service_account` gets tokens for providers with `tokenAttributes`: `ClusterServiceAccounts(client)`, or
    whatever has its methods. `environ` is what the programs inherit, in place of the variables of this
    process. `observer` is told of every run; without one, `kubeauth.metrics` is.

    For any number of threads and event loops at once: a provider that several of them want to ask about an
    image is run once. It has 60 seconds. `close` ends what runs.
    """

    def __init__(
        self,
        config_path: str | os.PathLike[str],
        bin_dir: str | os.PathLike[str],
        *,
        service_account: ServiceAccountSource | AsyncServiceAccountSource | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        observer: ProviderObserver = RECORDER,
    ) -> None:
        directory = _directory(bin_dir)
        self._accounts = accounts_of(service_account)
        self._config = config = load_provider_config(config_path)
        # Before the programs are looked for, as in the kubelet (1.40).
        observer.on_config_loaded(hash=config.hash, providers=[each.name for each in config.providers])
        environ = dict(environ) if environ is not None else None
        paths = _programs(config.providers, directory)
        self._providers = [
            AskedProvider(each, path, environ=environ, clock=clock, observer=observer)
            for each, path in zip(config.providers, paths, strict=True)
        ]
        self._index = PatternIndex(
            (pattern, number) for number, each in enumerate(config.providers) for pattern in each.match_images
        )
        self._unmatched = [ProviderAnswer(each.name) for each in config.providers]
        self._is_closed = False

    @property
    def config(self) -> CredentialProviderConfig:
        """What was loaded."""
        return self._config

    def credentials(self, image: str, *, pod: Pod | None = None) -> list[RegistryCredential]:
        """What to try for `image`, in this order. Runs providers, or waits for who does.

        A provider that fails gives nothing, and the others are asked all the same; what went wrong is
        logged, and told by `lookup`. Empty if there is nothing: the kubelet then pulls as nobody.
        RegistryError if `image` is no image's name.
        """
        return list(self.lookup(image, pod=pod).credentials)

    async def acredentials(self, image: str, *, pod: Pod | None = None) -> list[RegistryCredential]:
        """As `credentials`, off the event loop. Cancelling leaves a run to itself, and to the others."""
        return list((await self.alookup(image, pod=pod)).credentials)

    def lookup(self, image: str, *, pod: Pod | None = None) -> Lookup:
        """As `credentials`, with what became of each provider."""
        repository = self._repository(image)
        answers, given = list(self._unmatched), list[KeyIndex]()
        for number in self._matching(repository):
            answers[number], index = self._ask(self._providers[number], repository, pod)
            given.append(index)
        return Lookup(repository, tuple(looked_up(repository, given)), tuple(answers))

    async def alookup(self, image: str, *, pod: Pod | None = None) -> Lookup:
        """As `lookup`, off the event loop."""
        repository = self._repository(image)
        answers, given = list(self._unmatched), list[KeyIndex]()
        for number in self._matching(repository):
            answers[number], index = await self._aask(self._providers[number], repository, pod)
            given.append(index)
        return Lookup(repository, tuple(looked_up(repository, given)), tuple(answers))

    def refused(self, image: str, credential: RegistryCredential) -> None:
        """A registry did not take it, though it was given for `image`: the provider is asked again next time.

        Only if it is what would be given now, and not too often: a second after the last time, then two,
        to a minute; from the beginning once a newer one is `accepted`. `RegistryAuth` calls this.
        """
        repository = self._repository(image)
        for number in self._matching(repository):
            self._providers[number].refused(repository, credential)

    def accepted(self, image: str, credential: RegistryCredential) -> None:
        """A registry took it. `RegistryAuth` calls this when it is another than the last time."""
        if self._is_closed:
            return  # the answer is there: nobody wants to hear of it now
        repository = self._repository(image)
        for number in self._matching(repository):
            self._providers[number].accepted(repository, credential)

    def close(self) -> None:
        """Ends whatever runs, which takes a moment. Those who wait for it are told; later lookups raise."""
        self._is_closed = True
        for provider in self._providers:
            provider.close()

    async def aclose(self) -> None:
        """As `close`, off the event loop."""
        from kubeauth._runtime import run_in_thread  # for those alone who have an event loop

        await run_in_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        names = [each.name for each in self._config.providers]
        return f"CredentialProviders({names!r})"

    def _repository(self, image: str) -> str:
        if self._is_closed:
            raise RegistryError("these CredentialProviders are closed: make others")
        return repository_of(image)

    def _matching(self, repository: str) -> Sequence[int]:
        """In the order of the configuration (1.43), each once, whichever of its patterns match (2.8)."""
        return list(dict.fromkeys(self._index.find(repository)))

    def _ask(self, provider: AskedProvider, image: str, pod: Pod | None) -> _Asked:
        try:
            account = self._accounts.get(provider.config.token_attributes, pod)
        except Exception as error:
            return _no_account(provider, image, error), NOTHING
        if isinstance(account, NotAsked):
            return _not_asked(provider, image, account), NOTHING
        try:
            given = provider.get(image, account)
        except ProviderError as error:
            return _failed(provider, error), NOTHING
        return _answered(provider, given, account), given.index

    async def _aask(self, provider: AskedProvider, image: str, pod: Pod | None) -> _Asked:
        try:
            account = await self._accounts.aget(provider.config.token_attributes, pod)
        except Exception as error:
            return _no_account(provider, image, error), NOTHING
        if isinstance(account, NotAsked):
            return _not_asked(provider, image, account), NOTHING
        try:
            given = await provider.aget(image, account)
        except ProviderError as error:
            return _failed(provider, error), NOTHING
        return _answered(provider, given, account), given.index


def repository_of(image: str) -> str:
    """What providers are asked about (3.3). `quay.io/` is a registry of which no image is known."""
    if image.find("/") == len(image) - 1 > 0:
        reference = ImageReference.parse(f"{image}image")
        if reference.path in ("image", "library/image"):
            return f"{reference.domain}/"
    return ImageReference.parse(image).repository


def _directory(bin_dir: str | os.PathLike[str]) -> str:
    """Absolute: a relative one would be looked for wherever the process is by then, or on PATH (1.42)."""
    given = os.fspath(bin_dir)
    problem = "plugin binary directory is empty: name the directory of the providers' programs"
    if given:
        try:
            os.stat(given)
        except OSError as error:
            problem = f"plugin binary directory {given} did not exist: {error.strerror}"
        except ValueError:
            problem = "plugin binary directory: its name has a NUL byte"
        else:
            return os.path.abspath(given)
    raise ProviderConfigError.from_problems([Problem(problem)])


def _programs(providers: Sequence[CredentialProvider], directory: str) -> list[str]:
    found = [program_path(directory, each.name) for each in providers]
    problems = [
        Problem(
            f'plugin binary executable "{os.path.join(directory, each.name)}" did not exist',
            each.path or None,
            f'providers["{each.name}"].name',
            "A provider's name is that of its program, which must be there and executable.",
        )
        for each, path in zip(providers, found, strict=True)
        if path is None
    ]
    if problems:
        raise ProviderConfigError.from_problems(problems)
    return [path for path in found if path is not None]


def _answered(provider: AskedProvider, given: Given, account: Account | None) -> ProviderAnswer:
    return ProviderAnswer(
        provider.config.name,
        matched=True,
        from_cache=given.from_cache,
        service_account=account.service_account if account is not None else None,
        credentials=given.credentials,
        skipped=given.skipped,
    )


def _not_asked(provider: AskedProvider, image: str, why: NotAsked) -> ProviderAnswer:
    logger.debug("provider %s is not asked about %s: %s", provider.config.name, image, why.reason)
    return ProviderAnswer(provider.config.name, matched=True, not_asked=why.reason)


def _no_account(provider: AskedProvider, image: str, error: Exception) -> ProviderAnswer:
    # Words that are not ours may be anything.
    why = str(error) if isinstance(error, KubeAuthError) else type(error).__name__
    failure = ProviderError(
        f"provider {provider.config.name} is not asked about {image}: there is no token for it: {why}",
        provider=provider.config.name,
        reason="service-account",
    )
    failure.__cause__ = error
    logger.warning("%s\nThe lookup goes on without it", failure)
    return _failed(provider, failure)


def _failed(provider: AskedProvider, failure: ProviderError) -> ProviderAnswer:
    """Others are asked all the same (3.17)."""
    return ProviderAnswer(provider.config.name, matched=True, failure=failure.with_traceback(None))
