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
from tests.support.cases import count_cases
from tests.support.clients import DIRECT, VARIANTS, ClientVariant, covering_set
from tests.support.residue import freeze_objects

# No test asserts a time, so neither does hypothesis: the machine may be busy.
settings.register_profile("full", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("full"), max_examples=25)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("quick" if config.getoption("--quick") else "full")
    # A shell ignores Ctrl-C in background jobs, and the processes that tests start would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # nohup ignores SIGHUP.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="no slow tests, of the client variants a covering set, and fewer random examples: `make test`",
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
        if item.get_closest_marker("slow") or item.get_closest_marker("oracle"):
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


def pytest_runtest_setup(item: pytest.Item) -> None:
    if (count := count_cases(getattr(item, "function", None))) > 1:
        item.user_properties.append(("cases", count))  # scripts/attack_table.py adds them up


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    # Tests wait for other processes and for time to pass: one more worker than processors keeps these busy.
    return (os.cpu_count() or 1) + 1


def pytest_collection_finish() -> None:
    # The garbage collector need not traverse thousands of tests and their modules again.
    freeze_objects()


@pytest.fixture(scope="session")
def system_authorities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small CA bundle in place of the system's, which takes 20 ms to load."""
    path = tmp_path_factory.mktemp("system") / "ca.pem"
    path.write_bytes(Authority("system CA").pem)
    return path


@pytest.fixture(autouse=True, scope="session")
def session_environment(system_authorities: Path) -> Iterator[Iterator[Path]]:
    """Isolate the session from the machine. Yields a path for a temporary directory for each test."""
    # Not below pytest's directory: multiprocessing creates a Unix socket here, whose path must be short.
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
    """Give each test a home and a temporary directory of its own; see `tests.support.environment`."""
    home, temporary = tmp_path / "home", next(session_environment)
    home.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("HOME", str(home))
    with environment.use_temporary_directory(temporary):
        yield
    with suppress(OSError):  # some tests are about files that are left there
        temporary.rmdir()


@pytest.fixture(autouse=True)
def nothing_shared() -> Iterator[None]:
    """No credential source of one test is used by the next."""
    yield
    SOURCE_CACHE._recent.clear()


@pytest.fixture(autouse=True)
def levels_of_logs() -> Iterator[None]:
    """Restore the log levels that the command line sets."""
    loggers = [logging.getLogger(name) for name in ("kubeauth", "httpx", "httpcore", "httpx2", "httpcore2")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.fixture
def unprivileged_user() -> int:
    """A user id without rights, to test what root cannot: being refused."""
    if os.geteuid() != 0:
        return os.geteuid()
    return 65534


@pytest.fixture(params=[*VARIANTS, *DIRECT], ids=str)
def variant(request: pytest.FixtureRequest) -> ClientVariant:
    """Each client: a test with this fixture runs nine times, and with --quick three times."""
    found: ClientVariant = request.param
    return found


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def server(authority: Authority) -> Iterator[APIServer]:
    """An API server with a token for alice, a password for bob, and any client certificate of its CA."""
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
    """A CA that this machine trusts."""
    public = Authority("public CA")
    path = tmp_path_factory.mktemp("public") / "ca.pem"
    path.write_bytes(public.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return public
