"""kubectl's global flags: the same names, before or after the command, and what they come to."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING, Any

from kubeauth._secret import Secret
from kubeauth.errors import ConfigError

if TYPE_CHECKING:
    from kubeauth._config._client_config import ClientConfig
    from kubeauth._config._load import Loader

# From which -v on: ours, and the HTTP libraries'.
_LOG_LEVELS = (
    (8, logging.DEBUG, logging.DEBUG),
    (6, logging.DEBUG, logging.INFO),
    (4, logging.INFO, logging.WARNING),
    (-sys.maxsize, logging.WARNING, logging.WARNING),
)
_OUR_LOGGER, _HTTP_LOGGERS = "kubeauth", ("httpx", "httpcore", "httpx2", "httpcore2")


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
    server: str = ""
    token: Secret[str] = Secret("")
    certificate_authority: str = ""
    client_certificate: str = ""
    client_key: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    request_timeout: float | None = None
    verbosity: int = 0

    @property
    def choose_a_cluster(self) -> bool:
        """Whether anything was said about which cluster, or as whom."""
        return bool(vars(self).keys() & (_CLUSTER_FLAGS - {"namespace", "request_timeout"}))

    def config(self) -> ClientConfig:
        """The configuration that they choose, as kubectl would."""
        loader = self.loader()
        if self.kubeconfig is None:
            return loader.default()
        return loader.explicit(self.kubeconfig)

    def loader(self) -> Loader:
        """What resolves it, for whoever wants to see the steps."""
        from kubeauth._config._load import Loader
        from kubeauth._config._model import Cluster, Overrides, User

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
            ),
            user_info=User(
                token=self.token,
                client_certificate=self.client_certificate,
                client_key=self.client_key,
                impersonate=self.as_user,
                impersonate_uid=self.as_uid,
                impersonate_groups=tuple(self.as_group or ()),
            ),
        )
        return Loader(overrides=overrides)

    def set_up_logging(self) -> None:
        """To stderr: what goes wrong; from -v 4 on what is done about credentials; from 6 on, requests."""
        ours, https = next(levels for least, *levels in _LOG_LEVELS if self.verbosity >= least)
        logging.basicConfig(stream=sys.stderr, format="%(levelname).1s %(name)s: %(message)s")
        logging.getLogger(_OUR_LOGGER).setLevel(ours)
        for name in _HTTP_LOGGERS:
            logging.getLogger(name).setLevel(https)


def add_flags(parser: argparse.ArgumentParser, *, shown: bool) -> None:
    """The flags that every command has. In the help of each they would hide its own."""
    group = parser.add_argument_group("global flags, as kubectl has them" if shown else None)

    def add(*names: str, help: str, **how: Any) -> None:
        group.add_argument(*names, help=help if shown else argparse.SUPPRESS, **how)

    add(
        "--kubeconfig", metavar="PATH", help="this file alone; else those in $KUBECONFIG, else ~/.kube/config"
    )
    add("--context", metavar="NAME", help="another context than the current one")
    add("--cluster", metavar="NAME", help="another cluster than the context's")
    add("--user", metavar="NAME", help="another user than the context's")
    add("-n", "--namespace", metavar="NAME", help="another namespace than the context's")
    add("--as", dest="as_user", metavar="NAME", help="impersonate this user")
    add("--as-group", metavar="NAME", action="append", help="and this group; may be given again")
    add("--as-uid", metavar="UID", help="and this UID")
    add("-s", "--server", metavar="URL", help="another address than the cluster's")
    add("--token", metavar="TOKEN", type=Secret[str], help="another token than the user's; ps shows it")
    add("--certificate-authority", metavar="PATH", help="another CA than the cluster's")
    add("--client-certificate", metavar="PATH", help="another client certificate than the user's")
    add("--client-key", metavar="PATH", help="and its key")
    add("--tls-server-name", metavar="NAME", help="the name that the server's certificate must have")
    add(
        "--insecure-skip-tls-verify",
        action="store_true",
        help="take any certificate of the server's: whoever is in between can read everything",
    )
    add("--request-timeout", metavar="TIME", type=_timeout, help="for one request: 5s, 2m; 0 is for ever")
    levels = "what to log: 4 credentials, 6 requests, 8 the wire; never a secret"
    add("-v", "--v", dest="verbosity", metavar="LEVEL", type=int, help=levels)


def _timeout(text: str) -> float | None:
    from kubeauth._config._durations import parse_timeout

    try:
        return parse_timeout(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_CLUSTER_FLAGS = frozenset(Flags.__annotations__) - {"verbosity"}
