from __future__ import annotations

import itertools
import logging
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import tests.support.before_imports  # noqa: F401 -- imported for what it does, and before kubeauth

# isort: split
from kubeauth._credentials.cache import SOURCE_CACHE
from kubeauth.testing import APIServer, Authority, FakeClock
from tests.support import environment
from tests.support.clients import DIRECT, VARIANTS, ClientVariant, covering_set
from tests.support.residue import set_aside

# No test asserts a time, so neither does hypothesis: the machine may be busy.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_configure() -> None:
    # A shell that starts something in the background has it ignore Ctrl-C, and so would what tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # As nohup does with that of a terminal that is closed.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="no slow tests, and of the client variants a covering set, as `make test` does",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--quick"):
        return
    variants: dict[str, list[ClientVariant]] = {}
    for item in items:
        if (variant := _variant_of(item)) is not None:
            variants.setdefault(_function_of(item), []).append(variant)
    covering = {name: covering_set(found) for name, found in variants.items()}

    def is_quick(item: pytest.Item) -> bool:
        if item.get_closest_marker("slow"):
            return False
        variant = _variant_of(item)
        if variant is None or item.get_closest_marker("every_variant"):
            return True
        return variant in covering[_function_of(item)]

    deselected = [item for item in items if not is_quick(item)]
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for item in items if is_quick(item)]


def _variant_of(item: pytest.Item) -> ClientVariant | None:
    callspec = getattr(item, "callspec", None)
    values = callspec.params.values() if callspec is not None else ()
    return next((value for value in values if isinstance(value, ClientVariant)), None)


def _function_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    # Tests wait for programs and for time to pass: one more than there are processors keeps these busy.
    return (os.cpu_count() or 1) + 1


def pytest_collection_finish() -> None:
    # Thousands of tests and all their modules: nobody need look for garbage among them.
    set_aside()


@pytest.fixture(scope="session")
def system_authorities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What this machine trusts, as far as tests know: to read all that it does trust takes 20 ms each time."""
    path = tmp_path_factory.mktemp("system") / "ca.pem"
    path.write_bytes(Authority("system CA").pem)
    return path


@pytest.fixture(autouse=True, scope="session")
def session_environment(system_authorities: Path) -> Iterator[Iterator[Path]]:
    """For fixtures of the session too. Returns paths for directories that are not there yet, one for each test."""
    # Not below pytest's own: a socket in it, as multiprocessing makes one, must have a short path.
    with tempfile.TemporaryDirectory(prefix="k", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        with environment.isolate(directory):
            os.environ["SSL_CERT_FILE"] = str(system_authorities)
            os.environ["SSL_CERT_DIR"] = str(system_authorities.parent / "none")
            yield (directory / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def clean_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, session_environment: Iterator[Path]
) -> Iterator[None]:
    """What the shell, the user's files and other programs' temporary files say, no test sees: see
    `tests.support.environment`. Each test has a home and a directory for temporary files of its own.
    """
    home, temporary = tmp_path / "home", next(session_environment)
    home.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("HOME", str(home))
    with environment.use_temporary_directory(temporary):
        yield
    with suppress(OSError):  # a test that leaves files there is one about such files
        temporary.rmdir()


@pytest.fixture(autouse=True)
def nothing_shared() -> Iterator[None]:
    """What a plugin gave to one test is not there in the next, nor in its metrics."""
    yield
    SOURCE_CACHE._recent.clear()


@pytest.fixture(autouse=True)
def levels_of_logs() -> Iterator[None]:
    """A command line sets them, for a process that it takes for its own."""
    loggers = [logging.getLogger(name) for name in ("kubeauth", "httpx", "httpcore", "httpx2", "httpcore2")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.fixture
def nobody() -> int:
    """A user id without rights, to test what root cannot: being refused."""
    if os.geteuid() != 0:
        return os.geteuid()
    return 65534


@pytest.fixture(params=[*VARIANTS, *DIRECT], ids=str)
def variant(request: pytest.FixtureRequest) -> ClientVariant:
    """Each library in each runtime, and DirectTransport below: a test that takes this one runs nine times."""
    found: ClientVariant = request.param
    return found


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def server(authority: Authority) -> Iterator[APIServer]:
    """Knows alice by her token, bob by his password, and whoever has a certificate."""
    with APIServer(
        authority=authority, tokens={"alices-token": "alice"}, passwords={"bob": "pass:word"}
    ) as it:
        yield it


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def public(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Authority:
    """An authority that this machine trusts."""
    public = Authority("public CA")
    path = tmp_path_factory.mktemp("public") / "ca.pem"
    path.write_bytes(public.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return public
