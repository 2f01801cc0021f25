"""`kubeauth registry match`."""

from __future__ import annotations

import json

import pytest

from kubeauth.cli._ends import Status
from tests.cli.conftest import Run
from tests.cli.nodes import Node
from tests.cli.programs import environ

ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"


def lines(text: str) -> list[list[str]]:
    return [line.split(None, 3) for line in text.splitlines()]


@pytest.fixture(autouse=True)
def providers(node: Node) -> None:
    node.provider("ecr", "*.dkr.ecr.*.amazonaws.com", "public.ecr.aws")
    node.provider("gcp", "gcr.io:5000", "*.gcr.io", "https://gcr.io", "gcr.io/team")


def test_it_says_which_match_by_what_and_why_not_the_others(node: Node, run: Run) -> None:
    ran = run("registry", "match", f"{ECR}/app:1.2", *node.flags)
    assert (ran.status, ran.err) == (0, "")
    assert lines(ran.out)[:2] == [["Image", f"{ECR}/app:1.2"], ["Asked", "as", f"{ECR}/app"]]
    header, ecr, *others = lines(ran.out)[3:]
    assert header == ["PROVIDER", "MATCHES", "PATTERN", "WHY NOT"]
    # The pattern that does not match is of no interest: one is enough.
    assert ecr == ["ecr", "yes", "*.dkr.ecr.*.amazonaws.com"]
    assert [row[:3] for row in others] == [
        ["gcp", "no", "gcr.io:5000"],
        ["gcp", "no", "*.gcr.io"],
        ["gcp", "no", "https://gcr.io"],
        ["gcp", "no", "gcr.io/team"],
    ]
    assert not any(line.endswith(" ") for line in ran.out.splitlines())


def test_no_provider_matches(node: Node, run: Run) -> None:
    ran = run("registry", "match", "nginx", "--config", node.config)
    assert ran.status == Status.FAILED
    assert ran.err == (
        "No provider matches: the kubelet would ask none, and pull with what else it has, or as nobody.\n"
    )
    assert "docker.io/library/nginx:latest" in ran.out
    assert "\nAsked as   docker.io/library/nginx\n" in ran.out


@pytest.mark.parametrize(
    ("image", "pattern", "why"),
    [
        ("gcr.io/x", "gcr.io:5000", "it is for port 5000, and the image names none"),
        ("gcr.io/x", "gcr.io/team", "/x does not start with /team"),
        ("gcr.io/x", "https://gcr.io", "it matches no image at all: images have no https:// before them"),
        ("gcr.io/x", "*.gcr.io", "gcr.io has 2 parts and *.gcr.io has 3"),
        ("quay.io/x", "gcr.io/team", "quay.io is not gcr.io"),
    ],
)
def test_as_json_each_pattern_has_its_reason(
    image: str, pattern: str, why: str, node: Node, run: Run
) -> None:
    said = json.loads(run("registry", "match", image, "-o", "json", *node.flags).out)
    assert said["repository"] == image
    gcp = said["providers"][1]
    assert (gcp["name"], gcp["matches"]) == ("gcp", False)
    (found,) = (each for each in gcp["patterns"] if each["pattern"] == pattern)
    assert found["matches"] is False
    assert found["whyNot"].startswith(why)


def test_nothing_is_run_and_no_directory_of_programs_is_needed(node: Node, run: Run) -> None:
    script = node.provider("third", "quay.io")
    script.path.unlink()
    ran = run("registry", "match", "quay.io/app", "--image-credential-provider-config", str(node.config))
    assert (ran.status, ran.err) == (0, "")
    assert not script.runs


def test_the_environment_names_the_configuration(node: Node, run: Run) -> None:
    env = environ(KUBEAUTH_CREDENTIAL_PROVIDER_CONFIG=str(node.config))
    assert run("registry", "match", "us.gcr.io/x", env=env).status == 0
    # A flag wins.
    assert run("registry", "match", "us.gcr.io/x", "--config", "/nowhere", env=env).status == Status.CONFIG


def test_without_a_configuration_it_says_what_to_do(node: Node, run: Run) -> None:
    ran = run("registry", "match", "nginx")
    assert (ran.status, ran.out) == (Status.USAGE, "")
    assert "give --config, or set KUBEAUTH_CREDENTIAL_PROVIDER_CONFIG" in ran.err


def test_what_is_no_image(node: Node, run: Run) -> None:
    ran = run("registry", "match", "Nginx", *node.flags)
    assert (ran.status, ran.out) == (Status.USAGE, "")
    assert "a repository is in lower case: write nginx" in ran.err


def test_a_configuration_that_is_refused(node: Node, run: Run) -> None:
    node.config.write_text("{}")
    ran = run("registry", "match", "nginx", *node.flags)
    assert (ran.status, ran.out) == (Status.CONFIG, "")
    assert "Object 'kind' is missing" in ran.err


def test_patterns_are_logged_about_if_that_is_asked_for(node: Node, run: Run) -> None:
    quiet = run("registry", "match", "us.gcr.io/x", *node.flags)
    told = run("registry", "match", "us.gcr.io/x", *node.flags, "-v", "4")
    assert (quiet.err, quiet.out) == ("", told.out)
    assert "can never match an image" in told.err


def test_a_name_cannot_steer_the_terminal(node: Node, run: Run) -> None:
    node.provider("odd\x1b[31m", "quay.io")
    out = run("registry", "match", "quay.io/x", *node.flags).out
    assert "\x1b" not in out
    assert "oddU+001B[31m" in out
    assert "\x1b" not in run("registry", "match", "quay.io/x", "-o", "json", *node.flags).out
