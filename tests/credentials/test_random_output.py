"""Whatever a plugin prints: a credential, or an error of ours that names what is wrong (X30-X42).

From its output to the credential that a source holds: certificates are parsed, tokens and dates looked at.
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


class Says(ScriptedPlugin):
    """A plugin that has printed `output`."""

    def __init__(self, clock: FakeClock, output: bytes) -> None:
        super().__init__(clock)
        self._output = output

    def fetch(self, _is_wanted: object) -> ProviderCredential:
        answer = decode_output(self._output, V1)
        if isinstance(answer, InvalidOutput):
            raise output_error(self.command, answer.reason, answer.advice)
        return answer


def damaged(text: str) -> st.SearchStrategy[str]:
    return st.builds(
        lambda at, gone, noise: text[:at] + noise + text[at + gone :],
        st.integers(0, len(text)),
        st.integers(0, 40),
        st.text(max_size=4),
    )


def mostly(pem: bytes) -> st.SearchStrategy[str]:
    text = pem.decode()
    armour = text.splitlines()[0], text.splitlines()[-1]
    inside = st.text(max_size=20).map(lambda noise: f"{armour[0]}\n{noise}\n{armour[1]}\n")
    return st.just(text) | damaged(text) | inside | st.text(max_size=10)


MOMENTS = st.builds(
    lambda year, rest: f"{year:04}{rest}",
    st.sampled_from([1, 2, 1969, 1970, 2030, 9999]),
    st.sampled_from(["-01-01T00:00:00Z", "-12-31T23:59:59.999999999Z", "-01-01T00:00:00+23:59",
                     "-12-31T23:59:59-23:59"]),
)  # fmt: skip
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "token": st.text(max_size=6),
        "clientCertificateData": mostly(PAIR.certificate),
        "clientKeyData": mostly(PAIR.key),
        "expirationTimestamp": MOMENTS,
    },
)


@settings(max_examples=300, deadline=None)
@given(STATUSES)
def test_a_credential_or_an_error_that_names_what_is_wrong(status: dict[str, Any]) -> None:
    clock = FakeClock()
    plugin: Any = Says(clock, json.dumps({"apiVersion": V1, "status": status}).encode())
    source = RefreshableSource(plugin, clock, NullObserver())
    try:
        credential = source.get()
    except errors.PluginOutputError as error:
        assert error.reason
        assert source.status().last_error is not None
    else:
        assert credential.authorization or credential.client_certificate
        assert source.current is credential
    # Whatever came of it, these are asked all the time.
    source.cached_if_fresh(clock.monotonic())
    source.is_expired()
