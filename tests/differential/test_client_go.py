"""kubeauth beside client-go: the same files in, the same rest.Config out.

What client-go answered is kept in golden.json, so that these run where there is no Go. Where there is,
`make oracle` builds client-go and the kept answers are compared with it. To renew them:

    make oracle && UPDATE_GOLDEN=1 .venv/bin/python -m pytest tests/differential/test_client_go.py
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kubeauth.errors import KubeConfigError
from tests.differential.corpus import CASES, Case, go_json
from tests.support.cases import each_case

GOLDEN = Path(__file__).parent / "golden.json"

# What client-go refuses when it builds a transport, and kubeauth when it builds a client: the PEM in
# these cases is not a real certificate, and v1alpha1 is no longer spoken.
REFUSED_LATER = (
    "unable to load root certificates",
    "tls: failed to find",
    'exec plugin: invalid apiVersion "client.authentication.k8s.io/v1alpha1"',
)


def asked(oracle: Path, case: Case, directory: Path) -> dict[str, Any]:
    """client-go's own answer, without what is empty, and without the name of a temporary directory."""
    flags = [f"--{name}={value}" for name, value in case.choose.items()]
    if case.explicit:
        flags.append(f"--kubeconfig={directory / case.explicit}")
    run = subprocess.run(
        [oracle, *flags], env=case.environ(directory), cwd=directory, capture_output=True, check=True
    )
    text = run.stdout.decode().replace(str(directory), "{DIR}").replace(str(directory.parent), "{UP}")
    found = go_json(text)
    return {name: value for name, value in found.items() if value}


@pytest.fixture(scope="session")
def golden() -> dict[str, dict[str, Any]]:
    answers: dict[str, dict[str, Any]] = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    return answers


def ours(case: Case, directory: Path) -> dict[str, Any] | str:
    try:
        config = case.load(directory)
    except KubeConfigError as error:
        return str(error)
    exec_ = config.exec
    impersonate = config.impersonate
    return {
        "server": config.server,
        "namespace": config.namespace,
        "ca_data": config.ca_data,
        "ca_file": config.ca_file,
        "insecure_skip_tls_verify": config.insecure_skip_tls_verify,
        "tls_server_name": config.tls_server_name,
        "disable_compression": config.disable_compression,
        "proxy_url": config.proxy_url,
        "token": config.token and config.token.reveal(),
        "token_file": config.token_file,
        "username": config.username,
        "password": config.password and config.password.reveal(),
        "client_cert_data": config.client_cert_data,
        "client_key_data": config.client_key_data and config.client_key_data.reveal(),
        "client_cert_file": config.client_cert_file,
        "client_key_file": config.client_key_file,
        "impersonate": impersonate
        and {
            "user": impersonate.user,
            "uid": impersonate.uid,
            "groups": list(impersonate.groups),
            "extra": {key: list(values) for key, values in impersonate.extra.items()},
        },
        "auth_provider": config.oidc and "oidc",
        "exec": exec_
        and {
            "command": exec_.command,
            "args": list(exec_.args),
            "env": dict(exec_.env),
            "api_version": exec_.api_version,
            "interactive_mode": exec_.interactive_mode,
            "provide_cluster_info": exec_.provide_cluster_info,
            "install_hint": exec_.install_hint,
            "cluster_config": exec_.cluster_config,
        },
    }


def theirs(answer: dict[str, Any], directory: Path) -> dict[str, Any] | str:
    """The answer in the shape of ours."""
    text = json.dumps(answer).replace("{DIR}", str(directory)).replace("{UP}", str(directory.parent))
    found: dict[str, Any] = json.loads(text)
    refusal: str | None = found.pop("error", None) or found.pop("build_error", None)
    if refusal and not refusal.startswith(REFUSED_LATER):
        return refusal
    scheme, colon, rest = found["server"].partition("://")
    found["server"] = f"{scheme.lower()}{colon}{rest}"
    for name in ("ca_data", "client_cert_data", "client_key_data"):
        found[name] = base64.b64decode(found.get(name, ""))
    if exec_ := found.get("exec"):
        exec_["env"] = {item["name"]: item["value"] for item in exec_["env"] or ()}
        exec_["args"] = exec_["args"] or []
        exec_.setdefault("cluster_config", None)
    impersonate = found["impersonate"]
    impersonate["groups"] = impersonate["groups"] or []
    impersonate["extra"] = {key: values or [] for key, values in (impersonate["extra"] or {}).items()}
    if not impersonate["user"]:
        del found["impersonate"]
    return found


def normal(found: dict[str, Any] | str) -> dict[str, Any] | str:
    """Go has no None: absent and empty are the same there."""
    return "refused" if isinstance(found, str) else {name: value for name, value in found.items() if value}


@each_case("case", CASES, ids=lambda case: case.id)
def test_resolved_as_client_go_resolves_it(
    case: Case, golden: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    case.write(tmp_path)
    mine, reference = ours(case, tmp_path), theirs(golden[case.id], tmp_path)
    assert isinstance(mine, str) == case.broken, mine
    if case.differs:
        # Still a difference? If not, the documentation is wrong.
        assert normal(mine) != normal(reference), "no longer differs"
    else:
        assert normal(mine) == normal(reference), f"client-go: {reference}\nkubeauth: {mine}"


@pytest.mark.oracle
def test_the_kept_answers_are_client_gos(
    oracle: Path, golden: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    answers: dict[str, dict[str, Any]] = {}
    for number, case in enumerate(CASES):
        directory = tmp_path / "cases" / str(number)
        directory.mkdir(parents=True)
        case.write(directory)
        answers[case.id] = asked(oracle, case, directory)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n")
        golden = answers
    assert answers == golden


# Problems that are about a file as a whole, or about an argument, have no field to name.
WHOLE = ("error loading config file", "does not exist", "no configuration has been provided")


@each_case("case", [case for case in CASES if case.broken], ids=lambda case: case.id)
def test_every_problem_names_its_file_and_field_and_says_what_to_do(case: Case, tmp_path: Path) -> None:
    case.write(tmp_path)
    with pytest.raises(KubeConfigError) as caught:
        case.load(tmp_path)
    assert caught.value.problems
    for problem in caught.value.problems:
        assert problem.hint, problem
        if "no configuration has been provided" in problem.message:
            continue
        assert problem.path, problem
        assert str(tmp_path) in problem.path
        assert problem.field or any(words in problem.message for words in WHOLE), problem
