"""cluster-info, with a signature for each token that is for signing (A27-A30). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kubeauth._parsing import Json
from kubeauth.discovery._jws import sign_detached
from kubeauth.discovery._secrets import StoredToken, signing_problem, stored_token
from kubeauth.discovery._token import (
    KUBECONFIG_KEY,
    SIGNATURE_PREFIX,
    TOKEN_ID,
    BootstrapToken,
    signature_key,
)


def sign_cluster_info(
    config_map: Mapping[str, object], secrets: Iterable[object], *, now: float
) -> dict[str, Json] | None:
    """`config_map` as it should be; None if it is so already, or there is nothing in it to sign.

    `secrets` are those of kube-system, as the API has them: any that is no good for signing is passed over.
    Signatures of other tokens are taken out, and everything else stays, the version too: who updates with it
    overwrites nobody else's change.
    """
    return signed_cluster_info(config_map, map(stored_token, secrets), now)


def signed_cluster_info(
    config_map: Mapping[str, object], tokens: Iterable[StoredToken], now: float
) -> dict[str, Json] | None:
    data: Json = config_map.get("data")
    content = data.get(KUBECONFIG_KEY) if isinstance(data, Mapping) else None
    if not isinstance(content, str):
        return None
    kept = {key: value for key, value in data.items() if not key.startswith(SIGNATURE_PREFIX)}
    wanted = kept | {
        signature_key(token.id): sign_detached(content, token) for token in _signing_tokens(tokens, now)
    }
    return None if wanted == data else {**config_map, "data": wanted}


def _signing_tokens(tokens: Iterable[StoredToken], now: float) -> Iterator[BootstrapToken]:
    for stored in tokens:
        if signing_problem(stored, now) is None:
            yield BootstrapToken(stored.text(TOKEN_ID), stored.secret())
