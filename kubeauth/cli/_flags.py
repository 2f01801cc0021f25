"""kubectl's global flags: the same names, before or after the command, and what they come to."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Container, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from kubeauth._secret import Secret
from kubeauth.errors import ConfigError

if TYPE_CHECKING:
    from kubeauth._config.client_config import ClientConfig
    from kubeauth._config.loader import Loader
    from kubeauth._exec.config import ExecOptions

# From which -v on: ours, and the HTTP libraries'.
_LOG_LEVELS = (
    (8, "DEBUG", "DEBUG"),
    (6, "DEBUG", "INFO"),
    (4, "INFO", "WARNING"),
    (-sys.maxsize, "WARNING", "WARNING"),
)
_OUR_LOGGER, _HTTP_LOGGERS = "kubeauth", ("httpx", "httpcore", "httpx2", "httpcore2")

W = TypeVar("W", bound=StrEnum)


class Flags(argparse.Namespace):
    """What the command line says; a class attribute is the default of its flag.

    A command adds its own in a subclass, so that each has a name and a type.
    """

    kubeconfig: str | None = None
    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    as_user: str = ""
    as_uid: str = ""
    as_group: list[str] | None = None
    as_user_extra: list[str] | None = None
    server: str = ""
    token: Secret[str] = Secret("")
    username: str = ""
    password: Secret[str] = Secret("")
    certificate_authority: str = ""
    client_certificate: str = ""
    client_key: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    disable_compression: bool = False
    request_timeout: float | None = None
    verbosity: int = 0
    kuberc: str = ""

    LOG_FORMAT = "%(levelname).1s %(name)s: %(message)s"  # no flag: what runs for long has the time in it

    @property
    def choose_a_cluster(self) -> bool:
        """Whether anything was said about which cluster, or as whom."""
        return bool(vars(self).keys() & (_CLUSTER_FLAGS - {"namespace", "request_timeout"}))

    def config(self, exec_options: ExecOptions | None = None) -> ClientConfig:
        """The configuration that they choose, as kubectl would."""
        import logging

        from kubeauth._config.urls import redact_url

        loader = self.loader(exec_options)
        config = loader.load_file(self.kubeconfig) if self.kubeconfig else loader.load_default()
        chosen = config.context or "none", redact_url(config.server), config.namespace
        logging.getLogger("kubeauth.cli").info("context %s: server %s, namespace %s", *chosen)
        return config

    def loader(self, exec_options: ExecOptions | None = None) -> Loader:
        """What resolves it, for whoever wants to see the steps."""
        from kubeauth._config.environment import Environment
        from kubeauth._config.kubeconfig import Overrides
        from kubeauth._config.loader import Loader
        from kubeauth._secret import FrozenDict
        from kubeauth.schemas._kubeconfig import Cluster, User

        overrides = Overrides(
            context=self.context,
            cluster=self.cluster,
            user=self.user,
            namespace=self.namespace,
            cluster_info=Cluster(
                server=self.server,
                certificate_authority=self.certificate_authority,
                tls_server_name=self.tls_server_name,
                insecure_skip_tls_verify=self.insecure_skip_tls_verify,
                disable_compression=self.disable_compression,
            ),
            user_info=User(
                token=self.token,
                username=self.username,
                password=self.password,
                client_certificate=self.client_certificate,
                client_key=self.client_key,
                impersonate=self.as_user,
                impersonate_uid=self.as_uid,
                impersonate_groups=tuple(self.as_group or ()),
                impersonate_extra=FrozenDict(_extra(self.as_user_extra or ())),
            ),
        )
        environment = Environment(kuberc=self.kuberc)
        return Loader(overrides=overrides, exec_options=exec_options, environment=environment)

    def set_up_logging(self) -> None:
        """To stderr: what goes wrong; from -v 4 on what is done about credentials; from 6 on, requests."""
        import logging

        from kubeauth.cli._terminal import harmless

        class Formatter(logging.Formatter):
            def format(self, record: logging.LogRecord) -> str:
                return harmless(super().format(record))  # there are words of servers in it

        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(Formatter(self.LOG_FORMAT))
        logging.basicConfig(handlers=[handler])
        ours, https = next(levels for least, *levels in _LOG_LEVELS if self.verbosity >= least)
        logging.getLogger(_OUR_LOGGER).setLevel(ours)
        for name in _HTTP_LOGGERS:
            logging.getLogger(name).setLevel(https)


def add_flags(parser: argparse.ArgumentParser, *, shown: bool, but: Container[str] = ()) -> None:
    """The flags that every command has. In the help of each they would hide its own.

    `but`: those that the command has something of its own to say about.
    """
    group = parser.add_argument_group("global flags, as kubectl has them" if shown else None)

    def add(*names: str, help: str, **how: Any) -> None:
        if names[-1] not in but:
            group.add_argument(*names, help=help if shown else argparse.SUPPRESS, **how)

    add(
        "--kubeconfig", metavar="PATH", help="this file alone; else those in $KUBECONFIG, else ~/.kube/config"
    )
    add(
        "--kuberc",
        metavar="PATH",
        type=_path,
        help="policy for exec plugins; else $KUBERC, else ~/.kube/kuberc",
    )
    add("--context", metavar="NAME", help="another context than the current one")
    add("--cluster", metavar="NAME", help="another cluster than the context's")
    add("--user", metavar="NAME", help="another user than the context's")
    add("-n", "--namespace", metavar="NAME", help="another namespace than the context's")
    add("--as", dest="as_user", metavar="NAME", help="impersonate this user")
    add("--as-group", metavar="NAME", action="append", help="and this group; may be given again")
    add("--as-uid", metavar="UID", help="and this UID")
    add(
        "--as-user-extra",
        metavar="KEY=VALUE",
        type=_key_and_value,
        action="append",
        help="and this extra field; may be given again",
    )
    add("-s", "--server", metavar="URL", help="another address than the cluster's")
    add("--token", metavar="TOKEN", type=Secret[str], help="another token than the user's; ps shows it")
    add("--username", metavar="NAME", help="sign in with this name")
    add("--password", metavar="PASSWORD", type=Secret[str], help="and this password; ps shows it")
    add("--certificate-authority", metavar="PATH", help="another CA than the cluster's")
    add("--client-certificate", metavar="PATH", help="another client certificate than the user's")
    add("--client-key", metavar="PATH", help="and its key")
    add("--tls-server-name", metavar="NAME", help="the name that the server's certificate must have")
    add(
        "--insecure-skip-tls-verify",
        action="store_true",
        help="take any certificate of the server's: whoever is in between can read everything",
    )
    add("--disable-compression", action="store_true", help="have no answers compressed")
    add("--request-timeout", metavar="TIME", type=_timeout, help="for one request: 5s, 2m; 0 is for ever")
    levels = "what to log: 4 credentials, 6 requests, 8 the wire; never a secret"
    add("-v", "--v", dest="verbosity", metavar="LEVEL", type=int, help=levels)


def one_of(words: type[W]) -> Callable[[str], W]:
    """For `type=`: one of the words of an enumeration, and if it is none, an error that lists them."""

    def word(text: str) -> W:
        if text in list(words):
            return words(text)
        raise argparse.ArgumentTypeError(f"{text!r} is none of: {', '.join(words)}")

    return word


def add_output(parser: argparse.ArgumentParser, words: type[StrEnum], help: str) -> None:
    """-o, of a command that prints in more than one way."""
    parser.add_argument(
        "-o", "--output", type=one_of(words), choices=list(words), metavar="FORMAT", help=help
    )  # fmt: skip


def _path(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return text


def _key_and_value(text: str) -> str:
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return text


def _extra(given: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for key, _, value in (text.partition("=") for text in given):
        extra[key] = (*extra.get(key, ()), value)
    return extra


def _timeout(text: str) -> float | None:
    from kubeauth._parsing.go import parse_timeout

    try:
        return parse_timeout(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_CLUSTER_FLAGS = frozenset(Flags.__annotations__) - {"verbosity", "kuberc"}
