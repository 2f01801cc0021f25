"""`kubeauth gmsa serve`: the admission webhook, as a process."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from enum import StrEnum
from importlib import import_module

from kubeauth.cli._ends import Status
from kubeauth.cli._flags import Flags, one_of
from kubeauth.gmsa._decision import Codes, Mode, Policy
from kubeauth.gmsa._environment import count_of, level_of, port_of, rate_of

# From this -v on it says what else it does, unless --log-level is given.
_TALKATIVE = 6


class CodeNames(StrEnum):
    shipped = "shipped"
    seed = "seed"


class Modes(StrEnum):
    fields = "fields"
    alpha = "alpha"


class Options(Flags):
    tls_crt: str = ""
    tls_key: str = ""
    host: str = ""
    https_port: str = ""
    qps: str = ""
    burst: str = ""
    random_hostname: bool = False
    log_level: str = ""
    compat: bool = False
    codes: Codes = "shipped"
    mode: Mode = "fields"
    check_requesting_user: bool = False
    cert_reload: bool = False

    LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

    @property
    def policy(self) -> Policy:
        return Policy(
            compat=self.compat,
            codes=self.codes,
            mode=self.mode,
            check_requesting_user=self.check_requesting_user,
        )

    @property
    def environ(self) -> dict[str, str]:
        """The environment, with what flags say in the place of what it says."""
        said = {
            "TLS_CRT": self.tls_crt,
            "TLS_KEY": self.tls_key,
            "HTTPS_PORT": self.https_port,
            "QPS": self.qps,
            "BURST": self.burst,
            "RANDOM_HOSTNAME": "true" if self.random_hostname else "",
            "LOG_LEVEL": self.log_level or ("debug" if self.verbosity >= _TALKATIVE else ""),
        }
        return {**os.environ, **{name: value for name, value in said.items() if value}}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    how = parser.add_argument_group("how it is served; each counts before its variable in the environment")
    how.add_argument("--tls-crt", metavar="FILE", help="its certificate, with what is in between ($TLS_CRT)")
    how.add_argument("--tls-key", metavar="FILE", help="the key of that ($TLS_KEY)")
    how.add_argument("--host", metavar="ADDRESS", help="listen there alone (default: on all addresses)")
    how.add_argument(
        "--https-port",
        metavar="PORT",
        type=_checked(port_of, "a port: 1 to 65535"),
        help="and on this port ($HTTPS_PORT; default: 443)",
    )
    how.add_argument(
        "--qps",
        metavar="NUMBER",
        type=_checked(rate_of, "a number of questions a second"),
        help="ask the API server so often a second ($QPS; default: as often as reviews need it)",
    )
    how.add_argument(
        "--burst",
        metavar="NUMBER",
        type=_checked(count_of, "a whole number from 1 on"),
        help="and so often at once, with --qps ($BURST; default: 10)",
    )
    how.add_argument(
        "--log-level",
        metavar="LEVEL",
        type=_checked(level_of, "a level: error, warn, info or debug"),
        help="error, warn, info or debug ($LOG_LEVEL; default: info)",
    )
    what = parser.add_argument_group("what it decides")
    what.add_argument(
        "--random-hostname",
        action="store_true",
        help="give pods with a credential spec a random hostname, if they have none ($RANDOM_HOSTNAME)",
    )
    what.add_argument(
        "--check-requesting-user",
        action="store_true",
        help="whoever creates a pod must be allowed to use its credential specs, too",
    )
    what.add_argument(
        "--compat",
        action="store_true",
        help="decide as the webhook of kubernetes-sigs does: init and ephemeral containers are not looked at",
    )
    what.add_argument(
        "--codes",
        type=one_of(CodeNames),
        choices=list(CodeNames),
        metavar="WHOSE",
        help="shipped (default), or seed: the codes of the enhancement proposal",
    )
    what.add_argument(
        "--mode",
        type=one_of(Modes),
        choices=list(Modes),
        metavar="MODE",
        help="fields (default), or alpha: the annotations of the proposal in their place",
    )
    # The arguments of the webhook of kubernetes-sigs do as well.
    what.add_argument("--cert-reload", action="store_true", help=argparse.SUPPRESS)


def run(options: Options) -> int:
    """Serve the admission webhook for Windows pods with GMSA credential specs, over https.

    It asks the API server of the kubeconfig, or in a pod that of its cluster, for credential specs and for
    who may use them. The certificate is read again when its files change. SIGTERM and Ctrl-C end it: what has
    begun is answered, and the exit code is 0.

      kubeauth gmsa serve --tls-crt tls.crt --tls-key tls.key --https-port 8443

    `kubeauth gmsa manifests` prints all that a cluster needs to run it, and to ask it.
    """
    import_module("starlette")  # if it is missing, that is reported before anything else

    from kubeauth.gmsa._serve import run as serve

    serve(options.environ, policy=options.policy, config=options.config(), host=options.host)
    return Status.OK


def _checked(read: Callable[[str], object], what: str) -> Callable[[str], str]:
    """For `type=`: what the environment would be read as, and if it cannot be, an error that says so."""

    def text_of(text: str) -> str:
        try:
            read(text)
        except (ValueError, KeyError):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None
        return text

    return text_of
