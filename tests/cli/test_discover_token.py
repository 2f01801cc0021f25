"""`kubeauth discover token create`, `list` and `delete`."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kubeauth.cli._discover_token_list import _short
from kubeauth.cli._ends import Status
from kubeauth.discovery import public_key_pin
from kubeauth.testing import Answer, APIServer, Authority
from tests.cli.answers import status
from tests.cli.bootstrap import PATH, Secrets
from tests.cli.conftest import Run
from tests.cli.programs import KUBEAUTH, environ, on_a_terminal, ran
from tests.discovery.clusters import PATH as CLUSTER_INFO
from tests.discovery.clusters import Cluster, config_map, published
from tests.support.cases import each_case

TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
MINE = "abcdef.k3v9x0q7m2z8w5t1"
FOREVER = {"usage_bootstrap_signing": "true", "usage_bootstrap_authentication": "true"}


@pytest.fixture
def secrets(api: APIServer) -> Secrets:
    return Secrets(api)


def later(**span: float) -> str:
    return f"{datetime.now(UTC) + timedelta(**span):%Y-%m-%dT%H:%M:%SZ}"


class TestCreate:
    def test_a_new_one_is_printed_and_nothing_else(self, secrets: Secrets, run: Run) -> None:
        done = run("discover", "token", "create")
        assert (done.status, done.err) == (0, "")
        token = done.out.removesuffix("\n")
        assert TOKEN.fullmatch(token)
        values = secrets.values(token[:6])
        assert f"{values['token-id']}.{values['token-secret']}" == token
        assert values["usage-bootstrap-signing"] == values["usage-bootstrap-authentication"] == "true"
        assert values["auth-extra-groups"] == "system:bootstrappers:kubeadm:default-node-token"
        assert later(hours=23) < values["expiration"] <= later(hours=24)

    def test_as_it_is_asked_for(self, secrets: Secrets, run: Run) -> None:
        flags = (
            "--ttl", "2h", "--usages", "authentication", "--groups", "system:bootstrappers:a,system:bootstrappers:b",
            "--description", "for a, b",
        )  # fmt: skip
        assert run("discover", "token", "create", MINE, *flags).out == f"{MINE}\n"
        values = secrets.values("abcdef")
        assert later(hours=1) < values.pop("expiration") <= later(hours=2)
        assert values == {
            "token-id": "abcdef",
            "token-secret": "k3v9x0q7m2z8w5t1",
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:a,system:bootstrappers:b",
            "description": "for a, b",
        }

    def test_one_for_ever(self, secrets: Secrets, run: Run) -> None:
        token = run("discover", "token", "create", "--ttl", "0").out
        assert "expiration" not in secrets.values(token[:6])

    def test_one_from_stdin(self, secrets: Secrets, run: Run) -> None:
        assert run("discover", "token", "create", "-", input=MINE).out == f"{MINE}\n"
        assert "bootstrap-token-abcdef" in secrets.items

    def test_one_that_was_made_by_hand(self, secrets: Secrets, run: Run) -> None:
        weak = "abcdef.0123456789abcdef"
        done = run("discover", "token", "create", weak)
        assert (done.status, done.out) == (Status.USAGE, "")
        assert "made by hand" in done.err
        assert weak[7:] not in done.err
        assert secrets.items == {}
        assert run("discover", "token", "create", weak, "--even-if-weak").out == f"{weak}\n"

    def test_one_that_is_there(self, secrets: Secrets, run: Run) -> None:
        secrets.add("abcdef")
        assert run("discover", "token", "create", MINE) == (
            Status.FAILED, "", 'Error from server (AlreadyExists): secrets "bootstrap-token-abcdef" already exists\n'
        )  # fmt: skip

    def test_who_may_not(self, api: APIServer, run: Run) -> None:
        api.on("POST", PATH, status(403, "Forbidden", "secrets is forbidden"))
        assert run("discover", "token", "create") == (
            Status.FAILED, "", "Error from server (Forbidden): secrets is forbidden\n"
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("nope", "is not a bootstrap token"),
            ("nope", "all of them a-z or 0-9. Give none, and one is generated."),
            ("--ttl -1h", "must end in the future"),
            ("--ttl soon", "'soon' is no time"),
            ("--usages signing,singing", "invalid usages of a bootstrap token: singing"),
            ("--usages ,", "needs a usage"),
            ("--usages signing --groups system:bootstrappers:a", "groups only with the usage authentication"),
            ("--groups admins", "invalid groups of a bootstrap token: admins"),
            ("--usages authentication --print-join-command", "needs the usage signing"),
            (f"{MINE} {MINE}", "unexpected argument: abcdef.****"),
        ],
    )
    def test_nonsense(self, line: str, said: str, secrets: Secrets, api: APIServer, run: Run) -> None:
        done = run("discover", "token", "create", *line.split())
        assert (done.status, done.out) == (Status.USAGE, "")
        assert said in done.err
        assert "See `kubeauth discover token create --help`." in done.err
        assert api.requests == []


class TestJoinCommands:
    def publish(self, api: APIServer, server: str, ca: bytes) -> None:
        api.on("GET", CLUSTER_INFO, Answer(body=config_map(published(server, ca))))

    def test_both_lines_with_every_pin(
        self, api: APIServer, ca: Authority, secrets: Secrets, run: Run
    ) -> None:
        other = Authority("other CA")
        self.publish(api, "https://cluster.example", ca.pem + other.pem)
        done = run("discover", "token", "create", MINE, "--print-join-command")
        assert (done.status, done.err) == (0, "")
        one, two = public_key_pin(ca.pem), public_key_pin(other.pem)
        assert done.out.splitlines() == [
            f"kubeauth discover cluster.example:443 --token {MINE} --ca-cert-hash {one} --ca-cert-hash {two}",
            f"kubeadm join cluster.example:443 --token {MINE} "
            f"--discovery-token-ca-cert-hash {one} --discovery-token-ca-cert-hash {two}",
        ]
        assert "bootstrap-token-abcdef" in secrets.items

    def test_the_line_works(self, api: APIServer, ca: Authority, secrets: Secrets, run: Run) -> None:
        with Cluster(ca) as cluster:
            self.publish(api, cluster.url, ca.pem)
            token = "123456.abcdef1234567890"  # which that cluster signs with
            lines = run("discover", "token", "create", token, "--even-if-weak", "--print-join-command").out
            for line in lines.splitlines():
                words = line.replace("kubeadm join", "kubeauth discover").split()
                assert run(*words[1:]).status == 0

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            (
                status(404, "NotFound", 'configmaps "cluster-info" not found'),
                'configmaps "cluster-info" not found',
            ),
            (Answer(body={"kind": "ConfigMap"}), "its answer is not a ConfigMap"),
            (Answer(body=config_map("nonsense: [")), "malformed"),
        ],
    )
    def test_a_cluster_that_publishes_nothing_gets_no_token(
        self, answer: Answer, said: str, api: APIServer, secrets: Secrets, run: Run
    ) -> None:
        api.on("GET", CLUSTER_INFO, answer)
        done = run("discover", "token", "create", "--print-join-command")
        assert (done.status, done.out) == (Status.FAILED, "")
        assert said in done.err
        assert "kubeadm init phase bootstrap-token" in done.err
        assert secrets.items == {}

    def test_who_may_not_read_it_is_not_told_that_nobody_may(
        self, api: APIServer, secrets: Secrets, run: Run
    ) -> None:
        api.on("GET", CLUSTER_INFO, status(403, "Forbidden", 'configmaps "cluster-info" is forbidden'))
        done = run("discover", "token", "create", "--print-join-command")
        assert (done.status, done.out) == (Status.FAILED, "")
        assert done.err.startswith('Error from server (Forbidden): configmaps "cluster-info" is forbidden\n')
        assert "nobody" not in done.err
        assert "so no token was created. Without that flag it is not asked for." in done.err
        assert secrets.items == {}

    def test_an_address_that_nobody_can_join_by(
        self, api: APIServer, ca: Authority, secrets: Secrets, run: Run
    ) -> None:
        self.publish(api, "https://rancher.example/k8s/clusters/c1", ca.pem)
        done = run("discover", "token", "create", "--print-join-command")
        assert done.status == Status.FAILED
        assert "an address with a path" in done.err
        assert secrets.items == {}


class TestList:
    @pytest.fixture
    def some(self, secrets: Secrets) -> Secrets:
        secrets.add("zzzzzz", **FOREVER, description="for ever")
        secrets.add(
            "abcdef",
            **FOREVER,
            expiration=later(hours=23, minutes=59),
            auth_extra_groups="system:bootstrappers:a,system:bootstrappers:b",
        )
        secrets.add("other0", kind="Opaque")
        return secrets

    def test_kubeadm_s_columns_with_ids_alone(self, some: Secrets, api: APIServer, run: Run) -> None:
        done = run("discover", "token", "list")
        assert (done.status, done.err) == (0, "")
        header, one, two = done.out.splitlines()
        assert re.split(r"\s{2,}", header) == [
            "TOKEN",
            "TTL",
            "EXPIRES",
            "USAGES",
            "DESCRIPTION",
            "EXTRA GROUPS",
        ]
        assert re.split(r"\s{2,}", one) == [
            "abcdef", "23h", some.values("abcdef")["expiration"], "authentication,signing", "<none>",
            "system:bootstrappers:a,system:bootstrappers:b",
        ]  # fmt: skip
        assert re.split(r"\s{2,}", two) == [
            "zzzzzz", "<forever>", "<never>", "authentication,signing", "for ever", "<none>"
        ]  # fmt: skip
        assert "0123456789abcdef" not in done.out
        # The others are not even asked for.
        assert api.requests[0].path == f"{PATH}?fieldSelector=type%3Dbootstrap.kubernetes.io%2Ftoken"

    def test_whole_tokens_if_they_are_asked_for(self, some: Secrets, run: Run) -> None:
        out = run("discover", "token", "list", "--show-secrets").out
        assert out.splitlines()[1].startswith("abcdef.0123456789abcdef ")
        hidden, shown = (
            json.loads(run("discover", "token", "list", "-o", "json", *flags).out)
            for flags in ([], ["--show-secrets"])
        )
        assert hidden[0] == {
            "id": "abcdef", "expires": some.values("abcdef")["expiration"], "usages": ["authentication", "signing"],
            "description": "", "groups": ["system:bootstrappers:a", "system:bootstrappers:b"], "problem": None,
        }  # fmt: skip
        assert shown[0] == {"token": "abcdef.0123456789abcdef", **hidden[0]}
        assert hidden[1]["expires"] is None

    def test_what_is_wrong_with_one(self, secrets: Secrets, run: Run) -> None:
        secrets.add("aaaaaa", **FOREVER, expiration="2009-01-01T00:00:00Z")
        secrets.add("bbbbbb", **FOREVER, expiration="some day")
        secrets.add("odd-name", **FOREVER)
        secrets.add("zzzzzz", **FOREVER)
        header, *others = (
            re.split(r"\s{2,}", line) for line in run("discover", "token", "list").out.splitlines()
        )
        assert header[-1] == "PROBLEM"
        assert [(row[0], row[1], row[2], row[-1]) for row in others] == [
            ("aaaaaa", "<over>", "2009-01-01T00:00:00Z", "it is over"),
            ("bbbbbb", "<over>", "<no date>", "it is over"),
            ("bootstrap-token-odd-name", "<forever>", "<never>",
             "it is not called bootstrap-token- and the id of a token"),
            ("zzzzzz", "<forever>", "<never>", "<none>"),
        ]  # fmt: skip

    def test_there_are_none(self, secrets: Secrets, run: Run) -> None:
        assert run("discover", "token", "list") == (
            0,
            "",
            "No bootstrap tokens found in kube-system namespace.\n",
        )
        assert run("discover", "token", "list", "-o", "json").out == "[]\n"

    @pytest.mark.parametrize("body", [{}, {"items": {}}, {"items": [None, 5, {}]}, []])
    def test_an_answer_that_makes_no_sense_has_none(self, body: object, api: APIServer, run: Run) -> None:
        api.on("GET", PATH, Answer(body=body))
        assert run("discover", "token", "list").status == 0

    def test_words_of_others_cannot_steer_the_terminal(self, secrets: Secrets, run: Run) -> None:
        secrets.add("abcdef", **FOREVER, description="odd \x1b[2J\nx")
        assert "odd U+001B[2J..." in run("discover", "token", "list").out

    def test_a_narrow_terminal_has_one_below_the_other(self, some: Secrets) -> None:
        _, said = on_a_terminal("discover", "token", "list", env=environ(COLUMNS="60"))
        one, two = said.replace("\r\n", "\n").split("\n\n")
        assert one.splitlines()[0] == "TOKEN          abcdef"
        assert "DESCRIPTION    for ever" in two.splitlines()
        assert all(len(line) <= 62 for line in said.splitlines())

    def test_what_does_not_fit_goes_on_below(self, secrets: Secrets) -> None:
        secrets.add("abcdef", **FOREVER, description="many words " * 8)
        _, said = on_a_terminal("discover", "token", "list", env=environ(COLUMNS="60"))
        assert said.count("many words") == 8
        assert all(len(line) <= 62 for line in said.splitlines())

    def test_a_reader_that_is_gone(self, some: Secrets) -> None:
        script = '"$@" | head -c 0; echo "${PIPESTATUS[0]}"'
        done = ran("bash", "-c", script, "bash", *KUBEAUTH, "discover", "token", "list")
        assert (done.out, done.err) == ("141\n", "")

    @each_case(
        ("seconds", "said"),
        [
            (0.5, "0s"),
            (59, "59s"),
            (60, "1m"),
            (3599, "59m"),
            (86399, "23h"),
            (86400 * 6, "6d"),
            (86400 * 800, "2y"),
        ],
    )
    def test_how_long_is_left(self, seconds: float, said: str) -> None:
        assert _short(seconds) == said


class TestDelete:
    def test_by_id_and_by_the_whole(self, secrets: Secrets, run: Run) -> None:
        for token_id in ("abcdef", "zzzzzz", "012345"):
            secrets.add(token_id)
        done = run("discover", "token", "delete", "abcdef", f"zzzzzz.{'0' * 16}", "abcdef")
        assert done == (0, 'bootstrap token "abcdef" deleted\nbootstrap token "zzzzzz" deleted\n', "")
        assert list(secrets.items) == ["bootstrap-token-012345"]

    def test_one_that_is_not_there_does_not_keep_the_others(self, secrets: Secrets, run: Run) -> None:
        secrets.add("abcdef")
        secrets.add("zzzzzz")
        run("discover", "token", "delete", "abcdef")
        assert run("discover", "token", "delete", "abcdef", "zzzzzz") == (
            Status.FAILED,
            'bootstrap token "zzzzzz" deleted\n',
            'Error from server (NotFound): secrets "bootstrap-token-abcdef" not found\n',
        )

    @pytest.mark.parametrize(
        "bad", ["abc", "ABCDEF", "abcdef.short", "abcdef.SECRETSECRET0123", "../../x", ""]
    )
    def test_all_are_looked_at_before_the_first_is_deleted(
        self, bad: str, secrets: Secrets, api: APIServer, run: Run
    ) -> None:
        secrets.add("abcdef")
        done = run("discover", "token", "delete", "abcdef", bad)
        assert (done.status, done.out) == (Status.USAGE, "")
        assert done.err.startswith("error: argument 2 is neither the id of a bootstrap token")
        assert not bad or bad not in done.err
        assert api.requests == []

    def test_none_is_nonsense(self, run: Run) -> None:
        done = run("discover", "token", "delete")
        assert done.status == Status.USAGE
        assert "TOKEN" in done.err


@pytest.mark.parametrize("command", ["create", "list", "delete abcdef"])
class TestEach:
    def test_no_kubeconfig(self, command: str, tmp_path: Path, run: Run) -> None:
        done = run("discover", "token", *command.split(), "--kubeconfig", tmp_path / "none")
        assert (done.status, done.out) == (Status.CONFIG, "")

    def test_nobody_is_there(self, command: str, api: APIServer, run: Run) -> None:
        done = run("discover", "token", *command.split(), "-s", "https://127.0.0.1:1")
        assert (done.status, done.out) == (Status.UNREACHABLE, "")
        assert "127.0.0.1:1 was refused" in done.err

    def test_who_is_not_known(self, command: str, api: APIServer, run: Run) -> None:
        done = run("--token", "nonsense", "discover", "token", *command.split())
        assert done == (Status.FAILED, "", "error: You must be logged in to the server (Unauthorized)\n")
