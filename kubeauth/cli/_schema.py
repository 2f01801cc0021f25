"""`kubeauth schema`: JSON Schemas of the documents that kubeauth reads."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from kubeauth.cli._ends import Failed, Status
from kubeauth.cli._flags import Flags
from kubeauth.cli._output import write_text
from kubeauth.cli._tables import Columns

if TYPE_CHECKING:
    from kubeauth.schemas import Model

MODELS = {
    "admission-review": "AdmissionReview",
    "config-map": "ConfigMap",
    "credential-provider-config": "CredentialProviderConfig",
    "credential-provider-request": "CredentialProviderRequest",
    "credential-provider-response": "CredentialProviderResponse",
    "credential-spec": "CredentialSpec",
    "docker-config": "DockerConfig",
    "exec-credential": "ExecCredential",
    "gmsa-credential-spec": "GMSACredentialSpec",
    "kubeconfig": "Kubeconfig",
    "kuberc": "Preference",
    "oidc-provider-metadata": "OIDCProviderMetadata",
    "oidc-token-response": "TokenResponse",
    "pod": "Pod",
    "secret": "SecretObject",
    "subject-access-review": "SubjectAccessReview",
    "token-request": "TokenRequest",
}
"""Classes of `kubeauth.schemas`, by the names of their documents on the command line."""
COMPLETIONS = {"name": tuple(MODELS)}


class Options(Flags):
    name: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="such as kubeconfig")


def run(options: Options) -> int:
    """Print the JSON Schema of a document.

    Editors and linters use it to check documents and to show descriptions. Without NAME, list the documents.

      kubeauth schema kubeconfig > kubeconfig.schema.json
      check-jsonschema --schemafile kubeconfig.schema.json ~/.kube/config
    """
    name = options.name
    if name is None:
        rows = [[name, _first_line(_get_model(name))] for name in MODELS]
        write_text(Columns().text([["NAME", "DESCRIPTION"], *rows]))
        return Status.OK
    if name not in MODELS:
        message = f'error: unknown document "{name}".{_suggest(name)}'
        raise Failed(f"{message}\nRun `kubeauth schema` to list them.", Status.USAGE)
    from kubeauth._parsing.json_schema import DIALECT

    schema = {"$schema": DIALECT, **_get_model(name).model_json_schema()}
    write_text(f"{json.dumps(schema, indent=2, ensure_ascii=False)}\n")
    return Status.OK


def _get_model(name: str) -> type[Model]:
    from kubeauth import schemas

    model: type[Model] = getattr(schemas, MODELS[name])
    return model


def _first_line(model: type[Model]) -> str:
    return (model.__doc__ or "").strip().splitlines()[0]


def _suggest(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, MODELS, n=1)
    return f" Did you mean {close[0]}?" if close else ""
