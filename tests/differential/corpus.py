"""Kubeconfigs that kubeauth, client-go and kubectl are all given.

Each case is a directory of files, a KUBECONFIG (or an explicit path) and the names to choose. Text is
written as it is; anything else as JSON, which is YAML. `{DIR}` in text stands for the case's directory.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubeauth import ClientConfig
from kubeauth._config.environment import Environment
from kubeauth._config.kubeconfig import Overrides
from kubeauth._config.loader import Loader

PEM = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
PEM64 = base64.b64encode(PEM).decode()
V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
EXTENSION = "client.authentication.k8s.io/exec"


def go_json(text: str | bytes) -> Any:
    """JSON that Go printed: it writes the float64 that a huge integer became in full."""
    return json.loads(
        text, parse_int=lambda digits: int(digits) if -(2**63) <= int(digits) < 2**64 else float(digits)
    )


@dataclass(frozen=True)
class Case:
    id: str
    files: Mapping[str, Any]
    kubeconfig: tuple[str, ...] = ("config",)
    explicit: str = ""
    choose: Mapping[str, str] = field(default_factory=dict[str, str])
    broken: bool = False
    """What kubeauth is expected to say; compared with the others."""
    differs: str = ""
    """The deliberate difference from client-go that this case shows: its rule, from the docs."""
    kubectl_accepts: bool = False
    """`kubectl config view` checks less than a client: it shows this broken one without a word."""

    def write(self, directory: Path) -> None:
        for name, content in self.files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            elif isinstance(content, str):
                path.write_text(content.replace("{DIR}", str(directory)))
            else:
                path.write_text(json.dumps(content))

    def environ(self, directory: Path) -> dict[str, str]:
        listed = "" if self.explicit else ":".join(str(directory / n) if n else "" for n in self.kubeconfig)
        return {"HOME": str(directory / "home"), "KUBECONFIG": listed, "PATH": "/usr/bin:/bin"}

    def load(self, directory: Path) -> ClientConfig:
        """What kubeauth makes of it."""
        choose = self.choose
        loader = Loader(
            overrides=Overrides(
                context=choose.get("context", ""),
                cluster=choose.get("cluster", ""),
                user=choose.get("user", ""),
                namespace=choose.get("namespace", ""),
            ),
            environment=Environment(environ=self.environ(directory)),
        )
        return loader.load_file(str(directory / self.explicit)) if self.explicit else loader.load_default()


def config(
    cluster: Any = None, user: Any = None, context: Mapping[str, Any] | None = None, **top: Any
) -> dict[str, Any]:
    """A kubeconfig with one cluster `c`, user `u` and context `x`."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://h:6443"} if cluster is None else cluster}],
        "users": [{"name": "u", "user": {} if user is None else user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        "current-context": "x",
        **top,
    }


def one(id: str, cluster: Any = None, user: Any = None, **more: Any) -> Case:
    files = more.pop("files", {})
    return Case(id, {"config": config(cluster, user), **files}, **more)


def plugin(**fields: Any) -> dict[str, Any]:
    return {"exec": {"apiVersion": V1, "command": "plug", "interactiveMode": "Never", **fields}}


def https(**fields: Any) -> dict[str, Any]:
    return {"server": "https://h:6443", **fields}


def extension(value: Any, name: str = EXTENSION) -> dict[str, Any]:
    return https(extensions=[{"name": name, "extension": value}])


def yaml_extension(text: str) -> dict[str, Any]:
    """A config written in YAML, whose exec extension holds `text`: shows the types scalars get."""
    return {
        "config": f"""
apiVersion: v1
kind: Config
current-context: x
clusters:
- name: c
  cluster:
    server: https://h:6443
    extensions:
    - name: {EXTENSION}
      extension:
{text}
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
users:
- name: u
  user:
    exec: {{apiVersion: {V1}, command: plug, interactiveMode: Never}}
"""
    }


FIELDS = [
    one("anonymous"),
    one(
        "K2-every-cluster-field",
        https(
            **{
                "tls-server-name": "name",
                "certificate-authority-data": PEM64,
                "proxy-url": "http://proxy:3128",
                "disable-compression": True,
            }
        ),
    ),
    one("K2-insecure", https(**{"insecure-skip-tls-verify": True})),
    one("K3-token", user={"token": "tok"}),
    one("K3-token-verbatim", user={"token": " tok\n"}),
    one("K3-basic", user={"username": "n", "password": "p"}),
    one("K3-username-only", user={"username": "n"}),
    one("K3-password-only", user={"password": "p"}),
    one(
        "K3-impersonation",
        user={
            "as": "a",
            "as-uid": "id",
            "as-groups": ["g1", "g2"],
            "as-user-extra": {"k": ["v1", "v2"], "e": []},
        },
    ),
    one("K4-namespace", files={"config": config(context={"namespace": "ns"})}),
    one(
        "K5-exec",
        extension({"a": 1}),
        plugin(
            args=["a", ""],
            env=[{"name": "A", "value": "1"}, {"name": "B", "value": ""}],
            installHint="get it",
            provideClusterInfo=True,
        ),
    ),
    one("K5-exec-env-twice", user=plugin(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])),
    one("K9-unknown-fields", https(new=1), {"Token": "x", "future": {}}),
    one("K9-names-are-case-sensitive", {"Server": "https://h"}, broken=True, kubectl_accepts=True),
    one("K12-v1beta1-mode", user=plugin(apiVersion=V1BETA1, interactiveMode="")),
    one(
        "K12-v1alpha1-mode",
        user=plugin(apiVersion="client.authentication.k8s.io/v1alpha1", interactiveMode=None),
    ),
    one("K12-v1-mode", user=plugin(interactiveMode=""), broken=True, kubectl_accepts=True),
    one("X29-hint", user=plugin(installHint="\x1b[31mred\x1b[0m\ttab\u200bzero")),
    one("K34-extension-null", extension(None), plugin()),
    one("K34-other-extension", extension({"a": 1}, "other"), plugin()),
    one(
        "K34-extension-deep",
        extension({"a": [1, 2.5, None, True, {"é": "☃"}], "n": 12345678901234567}),
        plugin(),
    ),
    one(
        "null-everywhere",
        https(**{"proxy-url": None, "insecure-skip-tls-verify": None, "extensions": None}),
        {"token": None, "exec": None, "as-groups": None, "as-user-extra": None},
    ),
]

DECODING = [
    Case("K8-empty-file", {"config": ""}, broken=True),
    Case("K8-only-comments", {"config": "# nothing\n"}, broken=True),
    Case("K8-null", {"config": "---\n"}, broken=True),
    Case("K8-no-version", {"config": {k: v for k, v in config().items() if k not in ("apiVersion", "kind")}}),
    Case("K8-empty-version", {"config": config(apiVersion="", kind="")}),
    Case("K8-other-kind", {"config": config(kind="Pod")}, broken=True),
    Case("K8-other-version", {"config": config(apiVersion="v2")}, broken=True),
    Case("list", {"config": "[]"}, broken=True),
    Case("scalar", {"config": "hello"}, broken=True),
    Case("binary", {"config": b"\x00\x01\x02\xff"}, broken=True),
    Case("half-yaml", {"config": "a: [b\nc: d"}, broken=True),
    Case("tab-indent", {"config": "clusters:\n\t- name: c"}, broken=True),
    Case("deep", {"config": "[" * 20_000}, broken=True),
    Case("utf-8-bom", {"config": b"\xef\xbb\xbf" + json.dumps(config()).encode()}),
    Case("utf-16", {"config": json.dumps(config()).encode("utf-16")}),
    Case("crlf", {"config": json.dumps(config(), indent=1).replace("\n", "\r\n").encode()}),
    Case("second-document-ignored", {"config": json.dumps(config()) + "\n---\n[broken"}),
    Case(
        "K10-two-clusters", {"config": config(clusters=[{"name": "c", "cluster": https()}] * 2)}, broken=True
    ),
    Case("K10-two-users", {"config": config(users=[{"name": "u", "user": {}}] * 2)}, broken=True),
    Case(
        "K10-two-contexts",
        {"config": config(contexts=[{"name": "x", "context": {"cluster": "c", "user": "u"}}] * 2)},
        broken=True,
    ),
    one("K10-two-extensions", https(extensions=[{"name": "e", "extension": {}}] * 2), broken=True),
    one("K11-bad-base64", https(**{"certificate-authority-data": "%%%"}), broken=True),
    one("K11-unpadded-base64", https(**{"certificate-authority-data": "YWI"}), broken=True),
    one(
        "K11-base64-with-line-breaks", https(**{"certificate-authority-data": PEM64[:8] + "\r\n" + PEM64[8:]})
    ),
    one(
        "K11-base64-with-blanks",
        https(**{"certificate-authority-data": PEM64[:8] + " " + PEM64[8:]}),
        broken=True,
    ),
    one("K11-url-safe-base64", https(**{"certificate-authority-data": "_-_-"}), broken=True),
    one("K11-base64-with-more-behind", https(**{"certificate-authority-data": "YWI=YWI="}), broken=True),
    one("number-for-string", user={"token": 12345}, broken=True),
    one("bool-for-string", user={"token": True}, broken=True),
    one("string-for-bool", https(**{"insecure-skip-tls-verify": "true"}), broken=True),
    one("mapping-for-list", user=plugin(args={"a": 1}), broken=True),
    one("string-for-list", user={"as-groups": "g"}, broken=True),
    one("string-for-user", user="u", broken=True),
    one("null-user", files={"config": config(users=[{"name": "u", "user": None}])}),
    one("null-entry", files={"config": config(users=[None, {"name": "u"}])}),
    one("null-in-args", user=plugin(args=["a", None])),
    Case(
        "json-duplicate-key",
        {"config": json.dumps(config())[:-1] + ', "current-context": "nope"}'},
        broken=True,
    ),
    Case(
        "yaml-flow",
        {
            "config": "{apiVersion: v1, clusters: [{name: c, cluster: {server: 'https://h'}}], "
            "contexts: [{name: x, context: {cluster: c}}], current-context: x}"
        },
    ),
    Case("yaml-plain-number-name", {"config": "current-context: 1\n"}, broken=True),
    Case("yaml-plain-y-is-bool", {"config": "current-context: y\n"}, broken=True),
    Case(
        "yaml-date-is-a-string",
        {
            "config": """
current-context: 2020-01-01
contexts: [{name: 2020-01-01, context: {cluster: 12:30:45}}]
clusters: [{name: 12:30:45, cluster: {server: https://h}}]
"""
        },
    ),
    Case(
        "yaml-anchors",
        {
            "config": """
x-common: &common {server: "https://h", tls-server-name: name}
current-context: x
contexts: [{name: x, context: {cluster: c}}]
clusters: [{name: c, cluster: *common}]
"""
        },
    ),
    Case(
        "yaml-merge-key",
        {
            "config": """
x-common: &common {server: "https://h", tls-server-name: name}
current-context: x
contexts: [{name: x, context: {cluster: c}}]
clusters: [{name: c, cluster: {<<: *common, server: "https://mine"}}]
"""
        },
    ),
    Case(
        "yaml-merge-key-after",
        {
            "config": """
x-common: &common {server: "https://h", tls-server-name: name}
current-context: x
contexts: [{name: x, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "https://mine", <<: *common}}]
"""
        },
    ),
    Case(
        "yaml-merge-list",
        {
            "config": """
a: &a {server: "https://a", tls-server-name: a1}
b: &b {server: "https://b", proxy-url: "http://b:1"}
current-context: x
contexts: [{name: x, context: {cluster: c}}]
clusters: [{name: c, cluster: {<<: [*a, *b]}}]
"""
        },
    ),
    Case("yaml-unknown-alias", {"config": "clusters: *nope\n"}, broken=True),
    Case(
        "yaml-block-scalar",
        {
            "config": """
current-context: |-
  x
contexts: [{name: x, context: {cluster: c}}]
clusters:
- name: c
  cluster:
    server: >-
      https://h
"""
        },
    ),
    Case(
        "yaml-string-tag",
        {
            "config": """
current-context: !!str 1
contexts: [{name: "1", context: {cluster: c}}]
clusters: [{name: c, cluster: {server: https://h}}]
"""
        },
    ),
    *[
        Case(f"yaml-extension-{name}", yaml_extension(f"        v: {text}"))
        for name, text in {
            "hex": "0x1F",
            "octal": "017",
            "new-octal": "0o17",
            "binary": "0b11",
            "underscore": "1_000",
            "not-octal": "089",
            "float": "1.50",
            "exponent": "1e3",
            "dot": ".5",
            "plus": "+7",
            "minus": "-0x10",
            "int64-max": "9223372036854775807",
            "uint64-max": "18446744073709551615",
            "beyond-uint64": "18446744073709551616",
            "beyond-int64": "-9223372036854775809",
            "on": "on",
            "off-list": "[On, OFF, yes, N, ~, null, '']",
            "bare-words": "[nope, yo, tr, Nu, oN]",
            "date": "2020-01-01",
            "time": "2020-01-01T00:00:00Z",
            "sexagesimal": "190:20:30",
            "version": "1.2.3",
            "quoted": "['1', \"true\"]",
            "empty": "",
            "tilde": "~",
            "equals": "=",
            "tag-int": "!!int '3'",
            "tag-float": "!!float 3",
            "tag-bool": "!!bool 'yes'",
            "tag-null": "!!null ''",
            "tag-unknown": "!mine 3",
            "int-key": "{1: a, 2.5: b, true: c}",
            "unicode": '"\\u2603 \\x41"',
            "plain-tilde-word": "~x",
            "big-float": "123456789012345678901234567890",
        }.items()
    ],
    Case("yaml-extension-inf", yaml_extension("        v: .inf"), broken=True),
    Case(
        "json-extension-big-number",
        {
            "config": config(
                extension({"n": 123456789012345678901234567890, "m": -1, "u": 18446744073709551615}), plugin()
            )
        },
    ),
]

CHAIN = [
    Case("K13-same-file-twice", {"config": config()}, ("config", "config")),
    Case("K15-missing-skipped", {"config": config()}, ("nope", "config")),
    Case("K15-empty-names-skipped", {"config": config()}, ("", "config", "")),
    Case("K15-all-missing", {}, ("nope", "nope2"), broken=True),
    Case("K16-broken-beside-good", {"config": config(), "bad": "a: [b"}, ("config", "bad"), broken=True),
    Case("K16-directory", {"config/inside": "x"}, broken=True),
    Case(
        "K14-explicit-alone",
        {"config": config(), "other": config(https(server="https://other"))},
        explicit="other",
    ),
    Case("K14-explicit-missing", {"config": config()}, explicit="nope", broken=True),
    Case("K14-below-a-file", {"config": config()}, ("config/below", "config"), broken=True),
    Case(
        "K17-first-wins-whole",
        {
            "a": config(user={"token": "first"}),
            "b": config(https(server="https://second"), {"token": "second", "as": "nobody"}),
        },
        ("a", "b"),
    ),
    Case(
        "K17-entries-are-not-field-merged",
        {
            "a": {"users": [{"name": "u", "user": {"username": "n"}}]},
            "b": config(user={"password": "p", "as": "nobody"}),
        },
        ("a", "b"),
    ),
    Case(
        "K17-first-current-context",
        {
            "a": {"current-context": ""},
            "b": {"current-context": "y"},
            "c": config(
                contexts=[
                    {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "x"}},
                    {"name": "y", "context": {"cluster": "c", "user": "u", "namespace": "y"}},
                ]
            ),
        },
        ("a", "b", "c"),
    ),
    Case(
        "K20-paths-from-own-file",
        {
            "one/a": {
                "users": [{"name": "u", "user": {"client-certificate": "crt", "client-key": "../two/key"}}]
            },
            "two/b": config(https(**{"certificate-authority": "./ca"})),
            "one/crt": "c",
            "two/key": "k",
            "two/ca": "ca",
        },
        ("one/a", "two/b"),
    ),
    one(
        "K20-absolute-path",
        user={"tokenFile": "{DIR}/t"},
        files={
            "config": json.dumps(config(user={"tokenFile": "{DIR}/t"})),
            "t": "tok\n",
        },
    ),
    one("K21-command-path", user=plugin(command="./bin/plug")),
    one("K21-command-parent", user=plugin(command="../plug")),
    one("K21-bare-command", user=plugin(command="plug")),
    one("K21-absolute-command", user=plugin(command="/opt//plug")),
    one("K22-no-expansion", user=plugin(command="$HOME/plug", args=["~/x", "$A"])),
    Case("home", {"home/.kube/config": config()}, ()),
]

MANY = {
    "clusters": [{"name": n, "cluster": {"server": f"https://{n}"}} for n in "ab"],
    "users": [{"name": n, "user": {"token": n}} for n in "ab"],
    "contexts": [{"name": n, "context": {"cluster": n, "user": n, "namespace": n}} for n in "ab"],
}
SELECTION = [
    Case("K24-context", {"config": {**MANY, "current-context": "a"}}, choose={"context": "b"}),
    Case("K24-user", {"config": {**MANY, "current-context": "a"}}, choose={"user": "b"}),
    Case("K24-cluster", {"config": {**MANY, "current-context": "a"}}, choose={"cluster": "b"}),
    Case("K24-all", {"config": MANY}, choose={"cluster": "b", "user": "a", "namespace": "n"}),
    Case("K25-no-such-context", {"config": MANY}, choose={"context": "z"}, broken=True),
    Case("K25-no-such-user", {"config": {**MANY, "current-context": "a"}}, choose={"user": "z"}, broken=True),
    Case(
        "K25-no-such-cluster",
        {"config": {**MANY, "current-context": "a"}},
        choose={"cluster": "z"},
        broken=True,
    ),
    Case("K26-current-context-missing", {"config": {**MANY, "current-context": "z"}}, broken=True),
    Case("K27-no-context", {"config": MANY}, broken=True),
    Case(
        "K28-dangling-user",
        {"config": config(users=[])},
        broken=True,
        differs="K28",
    ),
    Case("K28-no-user-named", {"config": config(context={"user": ""})}),
    Case(
        "K29-dangling-cluster",
        {"config": config(clusters=[])},
        broken=True,
    ),
    Case("K29-empty-cluster", {"config": config({})}, broken=True, kubectl_accepts=True),
    Case("K30-namespace-not-a-label", {"config": config(context={"namespace": "Not_A_Label"})}),
    Case("K33-namespace", {"config": {**MANY, "current-context": "a"}}, choose={"namespace": "other"}),
    Case(
        "nameless",
        {
            "config": {
                "clusters": [{"cluster": https()}],
                "users": [{"user": {"token": "t"}}],
                "contexts": [{"context": {}}],
            }
        },
        kubectl_accepts=True,
    ),
]


def bad(id: str, *args: Any, **more: Any) -> Case:
    return one(id, *args, broken=True, kubectl_accepts=True, **more)


VALIDATION = [
    bad("K35-no-server", {"tls-server-name": "n"}),
    bad("K36-socks5h", https(**{"proxy-url": "socks5h://p:1"})),
    bad("K36-schemeless-proxy", https(**{"proxy-url": "proxy:3128"})),
    bad("K36-control-character", https(**{"proxy-url": "http://p\n:1"})),
    one("K36-socks5", https(**{"proxy-url": "socks5://p:1080"})),
    one(
        "K37-ca-twice",
        https(**{"certificate-authority": "ca", "certificate-authority-data": PEM64}),
        broken=True,
        files={"ca": PEM},
    ),
    Case("K37-ca-missing", {"config": config(https(**{"certificate-authority": "nope"}))}, broken=True),
    one(
        "K38-cert-twice",
        user={"client-certificate": "f", "client-certificate-data": PEM64, "client-key": "f"},
        broken=True,
        files={"f": "f"},
    ),
    one(
        "K38-key-twice",
        user={"client-certificate": "f", "client-key-data": PEM64, "client-key": "f"},
        broken=True,
        files={"f": "f"},
    ),
    bad("K38-cert-without-key", user={"client-certificate-data": PEM64}),
    Case(
        "K38-cert-missing",
        {"config": config(user={"client-certificate": "nope", "client-key": "nope"})},
        broken=True,
    ),
    one("K38-key-alone-ignored", user={"client-key-data": PEM64}),
    bad("K39-token-and-basic", user={"token": "t", "username": "n", "password": "p"}),
    bad("K39-token-and-password", user={"token": "t", "password": "p"}),
    one(
        "K39-tokenfile-and-basic",
        user={"tokenFile": "t", "username": "n"},
        files={"t": "tok"},
        broken=True,
        kubectl_accepts=True,
    ),
    one("K39-tokenfile-and-password", user={"tokenFile": "t", "password": "p"}, files={"t": "tok"}),
    one("K40-exec-and-token", user={**plugin(), "token": "t"}),
    bad("K41-exec-and-provider", user={**plugin(), "auth-provider": {"name": "oidc"}}),
    bad("K41-no-command", user=plugin(command="")),
    bad("K41-no-version", user=plugin(apiVersion="")),
    bad("K41-env-without-name", user=plugin(env=[{"value": "v"}])),
    bad("K41-bad-mode", user=plugin(interactiveMode="Sometimes")),
    bad("K41-empty-exec", user={"exec": {}}),
    bad("K42-groups-without-as", user={"as-groups": ["g"]}),
    bad("K42-uid-without-as", user={"as-uid": "g"}),
    bad("K42-extra-without-as", user={"as-user-extra": {"g": []}}),
    bad(
        "K43-insecure-with-ca",
        https(**{"insecure-skip-tls-verify": True, "certificate-authority-data": PEM64}),
    ),
    bad("K44-two-problems", {"proxy-url": "x"}, {"as-uid": "i"}),
    bad("provider-gcp", user={"auth-provider": {"name": "gcp"}}),
    bad("provider-empty", user={"auth-provider": {}}),
    one(
        "provider-oidc",
        user={
            "auth-provider": {
                "name": "oidc",
                "config": {"client-id": "i", "idp-issuer-url": "https://i", "id-token": "t"},
            }
        },
    ),
    bad("K59-tokenfile-missing", user={"tokenFile": "nope"}),
    bad("server-control-character", {"server": "https://h\n:6443"}, differs="server address"),
    bad("server-bad-port", {"server": "https://h:port"}, differs="server address"),
    bad("server-ftp", {"server": "ftp://h"}, differs="server address"),
]

RESOLUTION = [
    one("K45-prefix", {"server": "https://h/pre/fix"}),
    one("K45-prefix-slash", {"server": "https://h/prefix/"}),
    one("K45-query-dropped", {"server": "https://h/p?q=1#f"}),
    one("K45-query-without-path", {"server": "https://h?q=1"}, differs="K45"),
    one("K45-upper-case-scheme", {"server": "HTTPS://h"}, {"token": "t"}),
    one("K45-ipv6", {"server": "https://[::1]:6443"}),
    one(
        "K46-http-drops-credentials",
        {
            "server": "http://h:8080",
            "insecure-skip-tls-verify": True,
            "tls-server-name": "n",
            "proxy-url": "http://p:1",
        },
        {**plugin(), "token": "t", "as": "a", "tokenFile": "nope"},
    ),
    one("K46-http-keeps-impersonation", {"server": "http://h"}, {"as": "a", "username": "n"}),
    one("K47-schemeless", {"server": "h:6443"}, {"token": "t"}, differs="K47"),
    one("K47-schemeless-host", {"server": "h"}, {"token": "t"}, differs="K47"),
    bad("K47-schemeless-with-path", {"server": "h/path"}, differs="server address"),
    one(
        "K49-data",
        https(**{"certificate-authority-data": PEM64}),
        {"client-certificate-data": PEM64, "client-key-data": PEM64},
    ),
    one("K58-token", user={"token": "t"}),
    one("K59-tokenfile-raw", user={"tokenFile": "t"}, files={"t": " tok \n"}),
    bad("K59-tokenfile-empty", user={"tokenFile": "t"}, files={"t": ""}),
    bad("K59-tokenfile-blank", user={"tokenFile": "t"}, files={"t": " \n"}, differs="K59"),
    one("K60-both", user={"token": "t", "tokenFile": "nope"}),
]

CASES = [*FIELDS, *DECODING, *CHAIN, *SELECTION, *VALIDATION, *RESOLUTION]
assert len({case.id for case in CASES}) == len(CASES)
