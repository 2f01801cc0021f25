"""What an API server's own side does with bootstrap tokens: ours beside the real one, on the same cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from kubeauth import AsyncClient, load_config
from kubeauth.discovery import Signer, TokenAuthenticator, sign_cluster_info, sign_detached
from kubeauth.testing import FakeClock
from tests.discovery.clusters import PATH, Runtime
from tests.e2e.cluster import ControlPlane
from tests.e2e.joining import SECRETS, Joinable, until

SECRET = "0123456789abcdef"
FOR_BOTH = {"usage-bootstrap-signing": "true", "usage-bootstrap-authentication": "true"}


def after(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def odd_secrets() -> dict[str, dict[str, Any]]:
    """What a token's Secret may be like, by the id in its name: what is other than in a decent one."""
    return {
        "decent": {},
        "second": {"token-secret": "abcdefghijklmnop"},
        "future": {"expiration": after(3600)},
        "isover": {"expiration": after(-3600)},
        "longag": {"expiration": "2009-01-02T15:04:05Z"},
        "zonest": {"expiration": "2109-01-02T15:04:05+05:30"},
        "fracti": {"expiration": "2109-01-02T15:04:05.123456789Z"},
        "commas": {"expiration": "2109-01-02T15:04:05,5Z"},
        "nodate": {"expiration": "garbage"},
        "nozone": {"expiration": "2109-01-02T15:04:05"},
        "dateon": {"expiration": "2109-01-02"},
        "spaced": {"expiration": "2109-01-02 15:04:05Z"},
        "lowert": {"expiration": "2109-01-02t15:04:05z"},
        "padded": {"expiration": "2109-01-02T15:04:05Z\n"},
        "feb30x": {"expiration": "2109-02-30T15:04:05Z"},
        "hour24": {"expiration": "2109-01-02T24:00:00Z"},
        "leapsc": {"expiration": "2109-06-30T23:59:60Z"},
        "zonebi": {"expiration": "2109-01-02T15:04:05+24:00"},
        "onehou": {"expiration": "2109-01-02T5:04:05Z"},
        "zone60": {"expiration": "2109-01-02T15:04:05-23:60"},
        "zone61": {"expiration": "2109-01-02T15:04:05+05:61"},
        "zone25": {"expiration": "2109-01-02T15:04:05+25:00"},
        "onemin": {"expiration": "2109-01-02T15:4:05Z"},
        "onedot": {"expiration": "2109-01-02T15:04:05.Z"},
        "plussg": {"expiration": "+2109-01-02T15:04:05Z"},
        "arabic": {"expiration": "٢١٠٩-01-02T15:04:05Z"},
        "manydi": {"expiration": "2109-01-02T15:04:05." + "9" * 40 + "Z"},
        "last9s": {"expiration": "9999-12-31T23:59:59-24:00"},
        "allodd": {"expiration": "2109-01-02T5:04:05,5+24:60"},
        "bindat": {"expiration": b"2109-01-02T15:04:05Z\xff"},
        "year00": {"expiration": "0000-01-01T00:00:00Z"},
        "year0s": {"expiration": "0001-01-01T00:00:00Z"},
        "noexpi": {"expiration": ""},
        "unsign": {"usage-bootstrap-signing": None},
        "unauth": {"usage-bootstrap-authentication": None},
        "falses": {"usage-bootstrap-signing": "false", "usage-bootstrap-authentication": "false"},
        "titled": {"usage-bootstrap-signing": "True", "usage-bootstrap-authentication": "True"},
        "number": {"usage-bootstrap-signing": "1", "usage-bootstrap-authentication": "1"},
        "spacey": {"usage-bootstrap-signing": " true", "usage-bootstrap-authentication": "true\n"},
        "otheri": {"token-id": "barfoo"},
        "emptyi": {"token-id": ""},
        "noidat": {"token-id": None},
        "emptys": {"token-secret": ""},
        "nosecr": {"token-secret": None},
        "shorts": {"token-secret": "tokenSecret"},
        "spaces": {"token-secret": "my voice is my passcode"},
        "utf8st": {"token-secret": "pässwörd-世界-🔒"},
        "binary": {"token-secret": bytes(range(128, 144))},
        "nulls0": {"token-secret": "\0" * 16},
        "newlin": {"token-secret": SECRET + "\n"},
        "binid0": {"token-id": b"\xff\xfe"},
        "groups": {"auth-extra-groups": "system:bootstrappers:foo,system:bootstrappers:bar:baz"},
        "twiceg": {"auth-extra-groups": "system:bootstrappers:foo,system:bootstrappers:foo"},
        "badgrp": {"auth-extra-groups": "system:masters"},
        "onebad": {"auth-extra-groups": "system:bootstrappers:foo,foo"},
        "spaceg": {"auth-extra-groups": "system:bootstrappers:foo, system:bootstrappers:bar"},
        "emptyg": {"auth-extra-groups": ""},
        "commag": {"auth-extra-groups": "system:bootstrappers:foo,"},
        "baseon": {"auth-extra-groups": "system:bootstrappers"},
        "upperg": {"auth-extra-groups": "system:bootstrappers:Foo"},
        "dashgr": {"auth-extra-groups": "system:bootstrappers:foo-"},
        "longgr": {"auth-extra-groups": "system:bootstrappers:" + "x" * 256},
        "toolon": {"auth-extra-groups": "system:bootstrappers:" + "x" * 257},
        "linegr": {"auth-extra-groups": "system:bootstrappers:foo\n"},
    }


def with_odd_secrets(joinable: Joinable) -> list[str]:
    """All of them are in the cluster, and some whose name, type or state is odd. Returns their ids."""
    for token_id, changes in odd_secrets().items():
        data = {"token-id": token_id, "token-secret": SECRET, **FOR_BOTH} | changes
        kept = {key: value for key, value in data.items() if value is not None}
        joinable.add_secret(f"bootstrap-token-{token_id}", kept)
    for name in (
        "bootstrap-token-short",
        "bootstrap-token-toolong9",
        "token-abcdef",
        "bootstrap-token-abc.de",
    ):
        joinable.add_secret(name, {"token-id": name[16:], "token-secret": SECRET, **FOR_BOTH})
    decent = {"token-secret": SECRET, **FOR_BOTH}
    joinable.add_secret("bootstrap-token-opaque", decent | {"token-id": "opaque"}, type="Opaque")
    joinable.add_secret("bootstrap-token-nodata", {})
    # Somebody wants something done before it goes: until then it is there, and is being deleted.
    metadata = {
        "name": "bootstrap-token-leaves",
        "namespace": "kube-system",
        "finalizers": ["e2e.kubeauth/wait"],
    }
    joinable.add_secret("bootstrap-token-leaves", decent | {"token-id": "leaves"}, metadata=metadata)
    joinable.admin.delete(f"{SECRETS}/bootstrap-token-leaves").raise_for_status()
    return [*odd_secrets(), "opaque", "nodata", "leaves", "nobody"]


def names(joinable: Joinable) -> set[str]:
    """Of the Secrets that are there."""
    return {each["metadata"]["name"] for each in joinable.secrets()}


@pytest.fixture(scope="class")
def without_cleaner(cluster: ControlPlane) -> Iterator[None]:
    """So that tokens that are over stay there, for whoever must see it by himself."""
    cluster.stop_controllers()
    cluster.start_controllers(without=["token-cleaner"])
    yield
    cluster.stop_controllers()
    cluster.start_controllers()


@pytest.mark.usefixtures("without_cleaner")
class TestBesideTheRealOnes:
    def test_our_signer_writes_what_the_real_one_does_to_the_byte_a16_a27_a28_a29(
        self, joinable: Joinable
    ) -> None:
        """With signatures of old in it, one of a token that there is, and another key that is nobody's business."""
        odd = {
            "jws-kubeconfig-gone99": "x",
            "jws-kubeconfig-decent": "old",
            "jws-kubeconfig-Bad.Id": "y",
            "note": "z",
        }
        for kubeconfig in (joinable.kubeconfig, "héllo 世界 🔒\r\n", ""):
            with_odd_secrets(joinable)
            before = joinable.publish(kubeconfig, **odd)
            ours = sign_cluster_info(before, joinable.secrets(), now=time.time())
            # It signs all that it knows at once, so when it has signed with the youngest it knew the others.
            youngest = joinable.add_signed()
            theirs = joinable.info()
            del theirs["data"][f"jws-kubeconfig-{youngest.id}"]
            assert ours is not None
            assert ours["data"] == theirs["data"]
            assert len(ours["data"]) > 20
            # Then there is nothing to do.
            assert sign_cluster_info(joinable.info(), joinable.secrets(), now=time.time()) is None
            for secret in joinable.secrets():
                joinable.remove(secret["metadata"]["name"])

    def test_without_a_kubeconfig_neither_does_anything_a27(self, joinable: Joinable) -> None:
        token = joinable.add_signed()
        info = joinable.info()
        del info["data"]["kubeconfig"]
        joinable.admin.put(PATH, json=info).raise_for_status()
        late = joinable.add()
        assert sign_cluster_info(joinable.info(), joinable.secrets(), now=time.time()) is None
        # When it can sign again it does, for both: till then it left the old signature alone.
        assert list(joinable.signatures()) == [token.id]
        joinable.admin.put(PATH, json=joinable.info() | {"data": {"kubeconfig": "x"}}).raise_for_status()
        until(lambda: {token.id, late.id} == set(joinable.signatures()))
        assert joinable.signatures()[late.id] == sign_detached("x", late)

    @pytest.mark.parametrize("is_async", [False, True])
    def test_our_authenticator_lets_in_whom_the_real_one_does_a8_a12_a24_a35(
        self, joinable: Joinable, is_async: bool
    ) -> None:
        ids = with_odd_secrets(joinable)
        youngest = joinable.add()
        until(lambda: joinable.bearer(youngest.reveal()) is not None)  # so it has heard of the others
        secrets = {each["metadata"]["name"]: each for each in joinable.secrets()}
        ours = TokenAuthenticator(secrets.get)
        shown = [f"{each}.{SECRET}" for each in ids]
        shown += ["decent.0123456789abcdeg", f"DECENT.{SECRET}", f"decent.{SECRET}0", f"decent..{SECRET}"]
        shown += ["second.abcdefghijklmnop", "emptys.", "shorts.tokenSecret", f"decent.{SECRET}.x", "decent"]
        verdicts: dict[str, list[str] | None] = {}
        for token in shown:
            user = joinable.bearer(token)
            found = anyio.run(ours.aauthenticate, token) if is_async else ours.authenticate(token)
            theirs = None if user is None else [user["username"], *user["groups"]]
            mine = None if found is None else [found.name, *found.groups, "system:authenticated"]
            assert mine == theirs, token
            verdicts[token] = theirs
        # It must have been a matter of yes and no.
        assert verdicts[f"decent.{SECRET}"] == [
            "system:bootstrap:decent", "system:bootstrappers", "system:authenticated",
        ]  # fmt: skip
        let_in = [token for token, verdict in verdicts.items() if verdict]
        assert 10 < len(let_in) < len(verdicts) - 10


@pytest.fixture(scope="class")
def without_signer(cluster: ControlPlane) -> Iterator[None]:
    """Ours takes its place."""
    cluster.stop_controllers()
    cluster.start_controllers(without=["bootstrap-signer"])
    yield
    cluster.stop_controllers()
    cluster.start_controllers()


@pytest.mark.usefixtures("without_signer")
class TestOurSigner:
    """In the place of bootstrapsigner; the cleaner is still the real one."""

    def test_where_nobody_signs_there_is_nothing_until_somebody_does_a27_a31(
        self, joinable: Joinable
    ) -> None:
        """The controllers run, as the cleaner shows, and the signer is off unless it is named."""
        token, short = joinable.add(), joinable.add(ttl=2.0)
        until(lambda: f"bootstrap-token-{short.id}" not in names(joinable))
        assert joinable.signatures() == {}

        async def main() -> list[bool]:
            async with AsyncClient(load_config(joinable.cluster.kubeconfig(joinable.signer()))) as client:
                return [await Signer(client).once() for _ in range(2)]

        assert anyio.run(main) == [True, False]
        assert joinable.signatures() == {token.id: sign_detached(joinable.kubeconfig, token)}

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_it_keeps_cluster_info_signed_a28_a30_a32(self, joinable: Joinable, backend: str) -> None:
        """As somebody with the rights of the real one, and no others. Discovery does not see a difference."""
        first = joinable.add()
        config = load_config(joinable.cluster.kubeconfig(joinable.signer()))

        def story() -> None:
            until(lambda: first.id in joinable.signatures())
            found = Runtime("sync").discover(token=first, **joinable.by_pin)
            assert found.pins == (joinable.pin,)
            # One that comes, one that goes, one that ends.
            second, short = joinable.add(), joinable.add()
            until(lambda: {first.id, second.id, short.id} == set(joinable.signatures()))
            joinable.end(short)
            joinable.remove(f"bootstrap-token-{first.id}")
            until(lambda: {second.id} == set(joinable.signatures()))
            # Somebody publishes another kubeconfig, and somebody takes all away and begins anew.
            info = joinable.info()
            info["data"] = {"kubeconfig": "another", "jws-kubeconfig-abcdef": "old"}
            joinable.admin.put(PATH, json=info).raise_for_status()
            until(lambda: joinable.signatures() == {second.id: sign_detached("another", second)})
            joinable.publish()
            until(lambda: joinable.signatures() == {second.id: sign_detached(joinable.kubeconfig, second)})
            # Then it is quiet.
            version = joinable.version()
            time.sleep(2)
            assert joinable.version() == version

        async def main() -> None:
            async with AsyncClient(config) as client, Signer(client, retry=0.2):
                await anyio.to_thread.run_sync(story)

        anyio.run(main, backend=backend)

    def test_it_goes_on_when_the_server_was_away(self, joinable: Joinable) -> None:
        config = load_config(joinable.cluster.kubeconfig(joinable.signer()))

        def story() -> None:
            first = joinable.add()
            until(lambda: first.id in joinable.signatures())
            joinable.cluster.stop_apiserver(kill=True)
            joinable.cluster.start_apiserver()
            second = joinable.add()
            until(lambda: {first.id, second.id} == set(joinable.signatures()))

        async def main() -> None:
            async with AsyncClient(config) as client, Signer(client, retry=0.2):
                await anyio.to_thread.run_sync(story)

        anyio.run(main)

    def test_it_writes_what_the_real_one_would_have_a28(self, joinable: Joinable) -> None:
        """Ours first; then the real one is started, and finds nothing to do."""
        with_odd_secrets(joinable)
        # Those that are over go: the cleaner is there.
        until(
            lambda: "bootstrap-token-isover" not in {each["metadata"]["name"] for each in joinable.secrets()}
        )

        async def main() -> None:
            async with AsyncClient(load_config(joinable.cluster.kubeconfig(joinable.signer()))) as client:
                await Signer(client).once()

        anyio.run(main)
        ours = joinable.info()
        assert len(ours["data"]) > 20
        joinable.cluster.stop_controllers()
        joinable.cluster.start_controllers(without=["token-cleaner"])
        youngest = joinable.add_signed()
        theirs = joinable.info()
        del theirs["data"][f"jws-kubeconfig-{youngest.id}"]
        assert theirs["data"] == ours["data"]
        joinable.cluster.stop_controllers()
        joinable.cluster.start_controllers(without=["bootstrap-signer"])


class TestBothSigners:
    """Ours while the real one is there, as when somebody moves from one to the other."""

    def test_they_agree_and_fall_silent_a28_a30(self, joinable: Joinable) -> None:
        with_odd_secrets(joinable)

        def story() -> None:
            tokens = [joinable.add() for _ in range(5)]
            until(lambda: {token.id for token in tokens} <= set(joinable.signatures()))
            until(lambda: "bootstrap-token-isover" not in names(joinable))
            # Two that did not agree would write without end.
            version = None
            for _ in range(20):
                version, before = joinable.version(), version
                if version == before:
                    return
                time.sleep(1)
            raise AssertionError("they do not agree")

        async def main() -> None:
            config = load_config(joinable.cluster.kubeconfig(joinable.signer()))
            async with AsyncClient(config) as client, Signer(client, retry=0.2):
                await anyio.to_thread.run_sync(story)

        anyio.run(main)

    def test_one_whose_clock_is_wrong_does_not_make_them_write_without_end(self, joinable: Joinable) -> None:
        """To ours the token is over, to the real one it is not. Neither gives in, and ours waits between writes."""
        joinable.add_signed(ttl=1800.0)
        versions = [joinable.version()]

        def story() -> None:
            until(lambda: joinable.version() > versions[0])  # it has begun
            versions[0] = joinable.version()
            time.sleep(5)
            versions.append(joinable.version())

        async def main() -> None:
            config = load_config(joinable.cluster.kubeconfig(joinable.signer()))
            async with AsyncClient(config) as client, Signer(client, clock=FakeClock(time.time() + 3600)):
                await anyio.to_thread.run_sync(story)

        anyio.run(main)
        # Each of ours is answered by one of theirs; without a pause there were 200.
        assert 2 <= versions[1] - versions[0] < 30
