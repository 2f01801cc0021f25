"""kubeauth beside kubectl: one kubeconfig, one issuer, whoever comes first."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeauth import Client, errors, load_config
from kubeauth.testing import Answer, APIServer, Authority, FakeClock
from tests.support.oidc import Kubeconfig, authenticate, settings, write_kubeconfig
from tests.support.oidc_issuer import CONFIGURATION, TOKEN, Issuer

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(180)]


@pytest.fixture
def server(authority: Authority) -> Iterator[APIServer]:
    with APIServer(authority=authority, authenticate=authenticate) as server:
        yield server


@pytest.fixture(params=["any", "header", "params"])
def issuer(request: pytest.FixtureRequest) -> Iterator[Issuer]:
    """However it wants the client's secret: both find out."""
    with Issuer(rotating=True, client_secret="s+3 c/ret", client_auth=request.param) as issuer:
        yield issuer


@pytest.fixture
def kubeconfig(issuer: Issuer, server: APIServer, tmp_path: Path) -> Kubeconfig:
    return write_kubeconfig(
        server, tmp_path / "config", settings(issuer, refresh_token=issuer.new_refresh_token())
    )


def kubectl_gets(kubectl: str, path: Path) -> str:
    """What it says on stderr; nothing if all is well."""
    run = subprocess.run(
        [kubectl, "get", "--raw", "/version", f"--kubeconfig={path}"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return run.stderr


def kubeauth_gets(path: Path, clock: FakeClock) -> None:
    with Client(load_config(path), clock=clock) as client:
        assert client.get("/version").status_code == 200


def test_each_uses_what_the_other_wrote_o2_o6_o7(
    kubectl: str, issuer: Issuer, server: APIServer, kubeconfig: Kubeconfig
) -> None:
    clock = FakeClock(time.time())
    kubeauth_gets(kubeconfig.path, clock)
    assert kubectl_gets(kubectl, kubeconfig.path) == ""
    # Good for another ten seconds, which is not enough for either.
    for first, second in (("kubectl", "kubeauth"), ("kubeauth", "kubectl")):
        kubeconfig.change(id_token=issuer.id_token(seconds=9))
        for who in (first, second):
            if who == "kubectl":
                assert kubectl_gets(kubectl, kubeconfig.path) == ""
            else:
                kubeauth_gets(kubeconfig.path, FakeClock(time.time()))
    sent = [request.header("Authorization") for request in server.requests if request.path == "/version"]
    # Three renewals, and each was used by both.
    assert len(sent) == 6
    assert [sent[n] == sent[n + 1] for n in (0, 2, 4)] == [True] * 3
    assert len(set(sent)) == 3
    assert set(issuer.errors) <= {"invalid_client"}
    succeeded = [
        (sorted(asked.form), asked.header("Authorization"))
        for asked in issuer.token_requests()
        if not asked.error
    ]
    assert len(succeeded) == 3
    # The same words, in the same place.
    assert succeeded[0] == succeeded[1] == succeeded[2]


@pytest.mark.parametrize(
    ("path", "answer", "words"),
    [
        (CONFIGURATION, Answer(status=500, body=b"no"), 'oidc: failed to query metadata endpoint 500'),
        (CONFIGURATION, Answer(body=b"no"), "oidc: failed to decode provider discovery object"),
        (CONFIGURATION, Answer(body={}), "oidc: discovery object doesn't contain a token_endpoint"),
        (TOKEN, Answer(status=400, body={"error": "invalid_grant", "error_description": "d"}),
         'failed to refresh token: oauth2: "invalid_grant" "d"'),
        (TOKEN, Answer(body={"id_token": "i"}), "failed to refresh token: oauth2: server response missing access_token"),
        (TOKEN, Answer(body={"access_token": "a"}), "token response did not contain an id_token"),
    ],
)  # fmt: skip
def test_both_say_the_same_o5_o6(
    path: str, answer: Answer, words: str, kubectl: str, server: APIServer, tmp_path: Path
) -> None:
    with Issuer() as issuer:
        kubeconfig = write_kubeconfig(
            server, tmp_path / "config", settings(issuer, refresh_token=issuer.new_refresh_token())
        )
        issuer.answers[path] = answer
        assert words in kubectl_gets(kubectl, kubeconfig.path)
        with Client(load_config(kubeconfig.path)) as client, pytest.raises(errors.OidcError) as caught:
            client.get("/version")
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("payload", "works"),
    [
        ({"exp": 4e9, "sub": "alice"}, True),
        ({"exp": 4000000000, "sub": "alice"}, True),
        ({"exp": "4000000000", "sub": "alice"}, True),
        ({"exp": "soon"}, False),
        ({"exp": None}, False),
        ({"sub": "alice"}, False),
        ({"exp": 1}, False),
    ],
    ids=str,
)
def test_both_take_the_same_for_a_token_o3_o4(
    payload: dict[str, object], works: bool, kubectl: str, authority: Authority, tmp_path: Path
) -> None:
    with Issuer() as issuer, APIServer(authority=authority) as server:
        config = settings(issuer, id_token=issuer.sign(payload))
        path = write_kubeconfig(server, tmp_path / "config", config).path
        theirs = kubectl_gets(kubectl, path)
        assert (theirs == "") == works, theirs
        with Client(load_config(path)) as client:
            if works:
                client.get("/version")
                sent = {request.header("Authorization") for request in server.requests}
                assert sent == {f"Bearer {config['id-token']}"}
                return
            with pytest.raises(errors.OidcError) as caught:
                client.get("/version")
            words = "cannot refresh without refresh-token"
            assert (words in theirs) == (words in str(caught.value))


@pytest.mark.parametrize(
    ("left_out", "words"),
    [("idp_issuer_url", "Must provide idp-issuer-url"), ("client_id", "Must provide client-id")],
)
def test_both_want_the_same_o1(
    left_out: str, words: str, kubectl: str, server: APIServer, tmp_path: Path
) -> None:
    with Issuer() as issuer:
        path = write_kubeconfig(server, tmp_path / "config", settings(issuer, **{left_out: None})).path
        assert words in kubectl_gets(kubectl, path)
        with pytest.raises(errors.KubeConfigError, match=words):
            load_config(path)


def test_both_send_a_client_certificate_along_o10(
    kubectl: str, server: APIServer, authority: Authority, tmp_path: Path
) -> None:
    with Issuer() as issuer:
        kubeconfig = write_kubeconfig(
            server, tmp_path / "config", settings(issuer, id_token=issuer.id_token())
        )
        authority.client("carol").write(tmp_path / "c", tmp_path / "k")
        text = kubeconfig.path.read_text()
        entry = "user:\n    client-certificate: c\n    client-key: k\n    auth-provider:"
        kubeconfig.path.write_text(text.replace("user:\n    auth-provider:", entry))
        assert kubectl_gets(kubectl, kubeconfig.path) == ""
        with Client(load_config(kubeconfig.path)) as client:
            client.get("/version")
    assert {(request.common_name, request.user) for request in server.requests} == {("carol", "alice")}
