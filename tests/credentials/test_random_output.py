"""Random output of a plugin is a credential or a PluginOutputError with a reason (X30-X42).

This covers the whole path from stdout to the cached credential, with tokens, certificates and dates.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeauth import errors
from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth._exec.codec import InvalidOutput, ProviderCredential, decode_output
from kubeauth._exec.plugin import output_error
from kubeauth.testing import Authority, FakeClock
from tests.support.kubeconfigs import V1
from tests.support.observers import NullObserver
from tests.support.scripted import ScriptedPlugin

PAIR = Authority().client("alice")


class PrintingPlugin(ScriptedPlugin):
    """A plugin that has printed `output`."""

    def __init__(self, clock: FakeClock, output: bytes) -> None:
        super().__init__(clock)
        self._output = output

    def fetch(self, _is_cancelled: object) -> ProviderCredential:
        decoded = decode_output(self._output, V1)
        if isinstance(decoded, InvalidOutput):
            raise output_error(self.command, decoded.reason, decoded.advice)
        return decoded


def corrupt(text: str) -> st.SearchStrategy[str]:
    return st.builds(
        lambda start, length, noise: text[:start] + noise + text[start + length :],
        st.integers(0, len(text)),
        st.integers(0, 40),
        st.text(max_size=4),
    )


def maybe_pem(pem: bytes) -> st.SearchStrategy[str]:
    text = pem.decode()
    begin, end = text.splitlines()[0], text.splitlines()[-1]
    wrapped = st.text(max_size=20).map(lambda noise: f"{begin}\n{noise}\n{end}\n")
    return st.just(text) | corrupt(text) | wrapped | st.text(max_size=10)


TIMESTAMPS = st.builds(
    lambda year, rest: f"{year:04}{rest}",
    st.sampled_from([1, 2, 1969, 1970, 2030, 9999]),
    st.sampled_from(["-01-01T00:00:00Z", "-12-31T23:59:59.999999999Z", "-01-01T00:00:00+23:59",
                     "-12-31T23:59:59-23:59"]),
)  # fmt: skip
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "token": st.text(max_size=6),
        "clientCertificateData": maybe_pem(PAIR.certificate),
        "clientKeyData": maybe_pem(PAIR.key),
        "expirationTimestamp": TIMESTAMPS,
    },
)


@settings(max_examples=300, deadline=None)
@given(STATUSES)
def test_random_output_is_a_credential_or_an_error_with_a_reason(status: dict[str, Any]) -> None:
    clock = FakeClock()
    plugin: Any = PrintingPlugin(clock, json.dumps({"apiVersion": V1, "status": status}).encode())
    source = RefreshableSource(plugin, clock, NullObserver())

    try:
        credential = source.get()
    except errors.PluginOutputError as error:
        assert error.reason
        assert source.status().last_error is not None
    else:
        assert credential.authorization or credential.client_certificate
        assert source.current is credential

    # Each request calls these, also after a failure.
    source.cached_if_fresh(clock.monotonic())
    source.is_expired()
