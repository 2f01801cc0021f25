"""`discover` and `adiscover`: a cluster that nobody knows yet, found safely."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from kubeauth._runtime import SYSTEM_CLOCK
from kubeauth.discovery._arguments import Arguments, GivenToken, Mode, hidden
from kubeauth.discovery._progress import Progress
from kubeauth.discovery._result import Discovered


def discover(
    endpoint: str | None = None,
    *,
    token: GivenToken = None,
    file: str | os.PathLike[str] | None = None,
    url: str | None = None,
    ca_cert_hashes: Iterable[str] = (),
    unsafe_skip_ca_verification: bool = False,
    tls_bootstrap_token: GivenToken = None,
    mode: Mode = "shipped",
    audience: str | None = None,
    timeout: float = 300.0,
    interval: float = 5.0,
    progress: Callable[[Progress], None] | None = None,
) -> Discovered:
    """A cluster and whom to trust there, found as `kubeadm join` finds it. In one of three ways:

    - `endpoint` and `token`: the API server's host:port and a bootstrap token. Who answers is believed if
      what it says is signed with the token, and if its CA is one of `ca_cert_hashes`, as
      `kubeadm token create --print-join-command` prints them. To go without these, say
      `unsafe_skip_ca_verification=True`: then whoever has the token can pretend to be the cluster. With
      `mode="seed"` the whole answer is signed, and the question too (for the cluster `audience`), by servers
      that know how.
    - `file`: a kubeconfig that you were given; `-` is stdin, and an https URL is as `url`.
    - `url`: one that an https server has, which this system trusts.

    Signs in with `tls_bootstrap_token`, or with `token`, or else with what the kubeconfig has.

    All is checked before anything is sent. A cluster that is not there yet, or has not signed yet, is asked
    every `interval` seconds, for `timeout` seconds in all; 0 is for one try. `progress` is told of each.

    Raises ConfigError for what is wrong with the arguments or the file, ClusterNotReady with the last
    reason if time runs out, ClusterNotTrusted, at once, for an answer that must not be believed.
    """
    token, tls_bootstrap_token = hidden(token), hidden(tls_bootstrap_token)
    asked = Arguments(
        endpoint=endpoint,
        token=token,
        file=file,
        url=url,
        ca_cert_hashes=ca_cert_hashes,
        unsafe_skip_ca_verification=unsafe_skip_ca_verification,
        tls_bootstrap_token=tls_bootstrap_token,
        mode=mode,
        audience=audience,
        timeout=timeout,
        interval=interval,
    ).checked()
    from kubeauth.discovery._driver import drive  # with httpx, which is not needed before
    from kubeauth.discovery._flow import Discovery

    return drive(Discovery(asked, SYSTEM_CLOCK, progress).steps())


async def adiscover(
    endpoint: str | None = None,
    *,
    token: GivenToken = None,
    file: str | os.PathLike[str] | None = None,
    url: str | None = None,
    ca_cert_hashes: Iterable[str] = (),
    unsafe_skip_ca_verification: bool = False,
    tls_bootstrap_token: GivenToken = None,
    mode: Mode = "shipped",
    audience: str | None = None,
    timeout: float = 300.0,  # noqa: ASYNC109 -- of the whole, as in discover
    interval: float = 5.0,
    progress: Callable[[Progress], None] | None = None,
) -> Discovered:
    """As `discover`, in an event loop of asyncio or trio. It may be cancelled at any time."""
    token, tls_bootstrap_token = hidden(token), hidden(tls_bootstrap_token)
    asked = Arguments(
        endpoint=endpoint,
        token=token,
        file=file,
        url=url,
        ca_cert_hashes=ca_cert_hashes,
        unsafe_skip_ca_verification=unsafe_skip_ca_verification,
        tls_bootstrap_token=tls_bootstrap_token,
        mode=mode,
        audience=audience,
        timeout=timeout,
        interval=interval,
    ).checked()
    from kubeauth.discovery._driver import adrive
    from kubeauth.discovery._flow import Discovery

    return await adrive(Discovery(asked, SYSTEM_CLOCK, progress).steps())
