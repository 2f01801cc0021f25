"""K65-K69 and T80: the in-cluster config, and when load_config falls back to it."""

from __future__ import annotations

import logging
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

import kubeauth
from kubeauth import ClientConfig, Secret
from kubeauth._config.client_config import ConfigOrigin
from kubeauth._config.environment import Environment
from kubeauth._config.in_cluster import load_in_cluster
from kubeauth._config.kubeconfig import Overrides
from kubeauth._config.loader import Loader, build_config, load_from_origin
from kubeauth.errors import ConfigError, InClusterError, KubeConfigError
from kubeauth.schemas import Cluster, User
from tests.support.kubeconfigs import document, write

CA = trustme.CA().cert_pem.bytes().decode()


@dataclass
class Pod:
    root: Path
    environ: dict[str, str]

    @property
    def environment(self) -> Environment:
        return Environment(environ=self.environ, service_account_dir=str(self.root))

    def loader(self, **overrides: Any) -> Loader:
        return Loader(overrides=Overrides(**overrides), environment=self.environment)


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    root = tmp_path / "serviceaccount"
    write(root / "token", "pod-token\n")
    write(root / "namespace", "pod-namespace\n")
    write(root / "ca.crt", CA)
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    return Pod(root, {**environ, "HOME": str(tmp_path / "home")})


def test_the_config_is_read_from_the_service_account_k65_k68(pod: Pod) -> None:
    assert load_in_cluster(pod.environment, Overrides()) == ClientConfig(
        server="https://10.0.0.1:443",
        namespace="pod-namespace",
        ca_file=str(pod.root / "ca.crt"),
        token=Secret("pod-token\n"),
        token_file=str(pod.root / "token"),
    )


@pytest.mark.parametrize(
    ("host", "server"),
    [
        ("fd00::1", "https://[fd00::1]:443"),
        ("fe80::1%25eth0", "https://[fe80::1%25eth0]:443"),
        ("h", "https://h:443"),
    ],
)
def test_ipv6_hosts_get_brackets_k65(pod: Pod, host: str, server: str) -> None:
    pod.environ["KUBERNETES_SERVICE_HOST"] = host
    assert load_in_cluster(pod.environment, Overrides()).server == server


@pytest.mark.parametrize("name", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"])
def test_missing_service_variables_raise_an_in_cluster_error_k65(pod: Pod, name: str) -> None:
    pod.environ[name] = ""
    with pytest.raises(InClusterError, match=r"unable to load in-cluster configuration, .*must be defined"):
        load_in_cluster(pod.environment, Overrides())

    with pytest.raises(InClusterError, match="must be defined"):
        kubeauth.in_cluster_config()


def test_an_unreadable_token_raises_an_in_cluster_error_k65(pod: Pod) -> None:
    (pod.root / "token").unlink()
    with pytest.raises(InClusterError, match="automountServiceAccountToken") as caught:
        load_in_cluster(pod.environment, Overrides())
    assert caught.value.path == str(pod.root / "token")

    (pod.root / "token").write_bytes(b"\xff")
    with pytest.raises(InClusterError, match="not UTF-8 text"):
        load_in_cluster(pod.environment, Overrides())


@pytest.mark.parametrize(
    "content",
    [None, "", "garbage", "\u2603", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"],
)
def test_an_invalid_ca_is_logged_and_ignored_k65(
    pod: Pod, content: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    (pod.root / "ca.crt").unlink()
    if content is not None:
        write(pod.root / "ca.crt", content)

    with caplog.at_level(logging.WARNING, "kubeauth"):
        assert load_in_cluster(pod.environment, Overrides()).ca_file is None

    assert "root CA" in caplog.text


def test_a_pem_block_with_headers_is_not_a_certificate_k65(pod: Pod) -> None:
    with_headers = CA.replace("CERTIFICATE-----\n", "CERTIFICATE-----\nKey: value\n\n", 1)

    write(pod.root / "ca.crt", with_headers + CA)
    assert load_in_cluster(pod.environment, Overrides()).ca_file == str(pod.root / "ca.crt")

    write(pod.root / "ca.crt", with_headers)
    assert load_in_cluster(pod.environment, Overrides()).ca_file is None


def test_one_invalid_certificate_invalidates_the_ca_file_k65(pod: Pod) -> None:
    write(pod.root / "ca.crt", CA + "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    assert load_in_cluster(pod.environment, Overrides()).ca_file is None


def test_text_around_the_ca_is_accepted_k65(pod: Pod) -> None:
    write(pod.root / "ca.crt", f"# für den Cluster\n{CA}")
    assert load_in_cluster(pod.environment, Overrides()).ca_file == str(pod.root / "ca.crt")


def test_an_invalid_service_port_is_rejected_k65(pod: Pod) -> None:
    pod.environ["KUBERNETES_SERVICE_PORT"] = "port"
    with pytest.raises(InClusterError, match="invalid server"):
        load_in_cluster(pod.environment, Overrides())


SERVER, TOKEN, CA_FILE = "https://override", Secret("override"), "/override/ca"


@pytest.mark.parametrize("server", ["", SERVER])
@pytest.mark.parametrize("ca", ["", CA_FILE])
@pytest.mark.parametrize(
    "user", [User(), User(token=TOKEN), User(token=TOKEN, token_file="/f"), User(token_file="/f")]
)
def test_only_server_token_and_ca_can_be_overridden_k67(pod: Pod, server: str, ca: str, user: User) -> None:
    cluster = Cluster(server=server, certificate_authority=ca, proxy_url="http://ignored:1")
    config = load_in_cluster(pod.environment, Overrides(cluster_info=cluster, user_info=user))

    assert config.server == (server or "https://10.0.0.1:443")
    assert config.ca_file == (ca or str(pod.root / "ca.crt"))
    assert config.proxy_url is None

    if user == User():
        assert (config.token, config.token_file) == (Secret("pod-token\n"), str(pod.root / "token"))
    else:
        assert (config.token, config.token_file) == (user.token or None, user.token_file or None)


def test_order_of_the_namespace_sources_k68(pod: Pod) -> None:
    def namespace(**overrides: Any) -> str:
        return load_in_cluster(pod.environment, Overrides(**overrides)).namespace

    assert namespace() == "pod-namespace"

    pod.environ["POD_NAMESPACE"] = "downward"
    assert namespace() == "downward"
    assert namespace(namespace="chosen") == "chosen"

    del pod.environ["POD_NAMESPACE"]
    write(pod.root / "namespace", " \n")
    assert namespace() == "default"

    (pod.root / "namespace").unlink()
    assert namespace() == "default"


def set_kubeconfig(pod: Pod, tmp_path: Path, content: Any) -> None:
    pod.environ["KUBECONFIG"] = write(tmp_path / "config", content)


EMPTY: list[Any] = ["", {}, {"clusters": document()["clusters"]}, document(clusters=[])]
INVALID: list[Any] = [
    document({"server": "", "tls-server-name": "n"}),
    document(user={"as-uid": "i"}),
    document(clusters=[], user={"as-uid": "i"}),
    {**document(), "current-context": "gone"},
    "[broken",
]


@pytest.mark.parametrize("content", EMPTY)
def test_in_cluster_config_returned_when_config_is_empty_t80_k66(
    pod: Pod, tmp_path: Path, content: Any
) -> None:
    set_kubeconfig(pod, tmp_path, content)
    assert pod.loader().load_default().server == "https://10.0.0.1:443"
    # K66: an explicit path falls back as well; only a document without a file does not.
    assert pod.loader().load_file(pod.environ["KUBECONFIG"]).server == "https://10.0.0.1:443"


@pytest.mark.parametrize("content", INVALID)
def test_in_cluster_not_checked_on_non_empty_error_t80_k66(pod: Pod, tmp_path: Path, content: Any) -> None:
    set_kubeconfig(pod, tmp_path, content)
    with pytest.raises(KubeConfigError):
        pod.loader().load_default()


def test_in_cluster_not_checked_when_config_is_valid_t80_k66(pod: Pod, tmp_path: Path) -> None:
    set_kubeconfig(pod, tmp_path, document())
    assert pod.loader().load_default().server == "https://h:6443"


@pytest.mark.parametrize("content", EMPTY)
def test_empty_error_returned_when_in_cluster_is_not_possible_t80_k66(
    pod: Pod, tmp_path: Path, content: Any
) -> None:
    set_kubeconfig(pod, tmp_path, content)
    (pod.root / "token").unlink()
    with pytest.raises(KubeConfigError, match="no configuration has been provided"):
        pod.loader().load_default()

    (pod.root / "token").mkdir()
    with pytest.raises(KubeConfigError, match="no configuration has been provided"):
        pod.loader().load_default()


def test_in_cluster_error_returned_when_config_is_empty_t80_k66(pod: Pod, tmp_path: Path) -> None:
    set_kubeconfig(pod, tmp_path, "")
    (pod.root / "token").write_bytes(b"\xff")
    with pytest.raises(InClusterError):
        pod.loader().load_default()


DEFAULTS = Cluster(server="http://localhost:8080")


@pytest.mark.parametrize(
    ("content", "defaults", "server"),
    [
        pytest.param("", DEFAULTS, "https://10.0.0.1:443", id="in-cluster checked when config is default"),
        pytest.param({"contexts": [{"name": "x", "context": {"namespace": "n"}}], "current-context": "x"}, DEFAULTS,
                     "https://10.0.0.1:443", id="checked when only the namespace is not the default"),
        pytest.param(document(), DEFAULTS, "https://h:6443", id="not checked when config is not equal to default"),
        pytest.param(document({"server": "http://localhost:8080"}), DEFAULTS, "https://10.0.0.1:443",
                     id="checked when the kubeconfig equals the default"),
        pytest.param(document({"server": "http://localhost:8080", "proxy-url": "http://good:1"}),
                     Cluster(server="http://localhost:8080", proxy_url="bad"), "http://localhost:8080",
                     id="not checked when default config is invalid"),
        pytest.param(document(), Cluster(disable_compression=True), "https://h:6443",
                     id="not checked when standard default is invalid"),
    ],
)  # fmt: skip
def test_in_cluster_and_cluster_defaults_t80_k66(
    pod: Pod, tmp_path: Path, content: Any, defaults: Cluster, server: str
) -> None:
    set_kubeconfig(pod, tmp_path, content)
    assert pod.loader(cluster_defaults=defaults).load_default().server == server


def test_cluster_defaults_are_used_outside_a_pod_t80_k66(pod: Pod, tmp_path: Path) -> None:
    set_kubeconfig(pod, tmp_path, "")
    (pod.root / "token").unlink()
    assert pod.loader(cluster_defaults=DEFAULTS).load_default().server == "http://localhost:8080"


def test_pod_namespace_is_ignored_outside_a_pod_k68(pod: Pod, tmp_path: Path) -> None:
    set_kubeconfig(pod, tmp_path, document())
    pod.environ["POD_NAMESPACE"] = "ignored"
    (pod.root / "token").unlink()
    assert pod.loader().load_default().namespace == "default"


def test_loading_from_an_origin_never_falls_back_to_in_cluster_k66(pod: Pod, tmp_path: Path) -> None:
    path = write(tmp_path / "config", {})
    with pytest.raises(KubeConfigError, match='context "x" does not exist'):
        load_from_origin(ConfigOrigin(paths=(path,), context="x"), environment=pod.environment)

    with pytest.raises(KubeConfigError, match="no configuration has been provided"):
        load_from_origin(ConfigOrigin(paths=(path,)), environment=pod.environment)


def test_the_origin_of_an_in_cluster_config_keeps_the_namespace(pod: Pod) -> None:
    config = load_in_cluster(pod.environment, Overrides(namespace="chosen"))
    origin = config._origin
    assert origin is not None
    assert load_from_origin(origin, environment=pod.environment) == config


def test_an_overridden_in_cluster_config_cannot_be_pickled(pod: Pod, tmp_path: Path) -> None:
    set_kubeconfig(pod, tmp_path, "")
    config = pod.loader(user_info=User(token=Secret("s3ntinel"))).load_default()
    with pytest.raises(ConfigError, match="token"):
        pickle.dumps(config)


def test_an_in_cluster_config_is_pickled_as_its_origin(pod: Pod, tmp_path: Path) -> None:
    set_kubeconfig(pod, tmp_path, "")

    pickled = pickle.dumps(pod.loader().load_default())

    assert b"pod-token" not in pickled
    with pytest.raises(InClusterError, match="must be defined"):
        pickle.loads(pickled)  # this process is not in a pod


def test_a_missing_context_argument_never_falls_back_to_in_cluster_k66(pod: Pod, tmp_path: Path) -> None:
    set_kubeconfig(pod, tmp_path, "")
    with pytest.raises(KubeConfigError, match='context "prod" does not exist'):
        pod.loader(context="prod").load_default()


@pytest.mark.parametrize(
    ("content", "names", "namespace"),
    [
        (document(), {}, "pod-namespace"),  # implicit default
        (document(context={"namespace": "own"}), {}, "own"),
        (document(context={"namespace": "default"}), {}, "default"),  # explicit default
        (document(), {"namespace": "chosen"}, "chosen"),
        ("", {}, "pod-namespace"),
        ("", {"namespace": "chosen"}, "chosen"),
        ({**document(context={"namespace": "default"}), "current-context": ""}, {"context": "x"}, "default"),
    ],
)
def test_namespaces_in_a_pod_t80_k68(
    pod: Pod, tmp_path: Path, content: Any, names: dict[str, str], namespace: str
) -> None:
    set_kubeconfig(pod, tmp_path, content)
    assert pod.loader(**names).load_default().namespace == namespace


def test_an_invalid_config_raises_also_with_a_namespace_t80(pod: Pod, tmp_path: Path) -> None:
    set_kubeconfig(pod, tmp_path, document(user={"as-uid": "i"}))
    with pytest.raises(KubeConfigError):
        pod.loader(namespace="n").load_default()


def test_master_and_kubeconfig_flags_k69(pod: Pod, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "home/.kube/config", document({"server": "https://never-read"}))
    path = write(tmp_path / "config", document({"tls-server-name": "n"}))

    assert build_config(environment=pod.environment).server == "https://10.0.0.1:443"
    assert build_config(kubeconfig=path, environment=pod.environment).server == "https://h:6443"

    overridden = build_config("https://master", path, environment=pod.environment)
    assert (overridden.server, overridden.tls_server_name) == ("https://master", None)

    (pod.root / "token").unlink()
    with pytest.raises(KubeConfigError, match="no configuration has been provided"):
        build_config(environment=pod.environment)
    assert "Neither --kubeconfig nor --master" in caplog.text

    pod.environ["KUBECONFIG"] = "/nope"
    assert build_config("https://master", environment=pod.environment).server == "https://master"
    assert build_config("https://master", environment=pod.environment).namespace == "default"
