"""The pods of the webhook, and what is in front of them (B81). Pure."""

from __future__ import annotations

from kubeauth._parsing import Json
from kubeauth.gmsa._installation import LABELS, NAME, PORT, SECRET, Installation

_MOUNTED = "/tls"
_PORT_NAME = "https"
# Of nobody: any number will do that is not root's. Images call it nonroot.
_USER = 65532
_SELECTOR: dict[str, Json] = {"matchLabels": LABELS}
# Endpoints are told of the end of a pod at the same time as the pod. Until all have heard it, it goes on.
_WAITED = "import time; time.sleep(5)"
# What is waited for, 20 seconds for what has begun, and some to spare.
_GRACE = 30


def service(installation: Installation) -> dict[str, Json]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": installation.named(),
        "spec": {
            "selector": dict(LABELS),
            "ports": [{"name": _PORT_NAME, "port": 443, "targetPort": _PORT_NAME, "protocol": "TCP"}],
        },
    }


def deployment(installation: Installation) -> dict[str, Json]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": installation.named(),
        "spec": {
            "replicas": installation.replicas,
            "selector": _SELECTOR,
            "template": {"metadata": {"labels": dict(LABELS)}, "spec": _pod(installation)},
        },
    }


def disruption_budget(installation: Installation) -> dict[str, Json]:
    """One of them may go at a time: also if there is but one, whose node could never be drained else."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": installation.named(),
        "spec": {"maxUnavailable": 1, "selector": _SELECTOR},
    }


def _pod(installation: Installation) -> dict[str, Json]:
    spread: dict[str, Json] = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        # On a cluster of one node it runs as well.
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": _SELECTOR,
    }
    return {
        "serviceAccountName": NAME,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "topologySpreadConstraints": [spread],
        "terminationGracePeriodSeconds": _GRACE,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(installation)],
        # For the group of the pod alone: 0440.
        "volumes": [{"name": "tls", "secret": {"secretName": SECRET, "defaultMode": 0o440}}],
    }


def _container(installation: Installation) -> dict[str, Json]:
    flags = ["--compat"] if installation.compat else []
    environ = {
        "TLS_CRT": f"{_MOUNTED}/tls.crt",
        "TLS_KEY": f"{_MOUNTED}/tls.key",
        "HTTPS_PORT": str(PORT),
        "RANDOM_HOSTNAME": str(installation.random_hostname).lower(),
    }
    return {
        "name": "webhook",
        "image": installation.image,
        "command": ["kubeauth", "gmsa", "serve", *flags],
        "env": [{"name": name, "value": value} for name, value in environ.items()],
        "ports": [{"name": _PORT_NAME, "containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": _probe(periodSeconds=5, failureThreshold=3),
        # Late: to start it anew helps nobody who waits for an API server that is slow.
        "livenessProbe": _probe(periodSeconds=10, failureThreshold=6),
        "lifecycle": {"preStop": {"exec": {"command": ["python", "-c", _WAITED]}}},
        # 300 connections, sixteen large reviews, and the one of these that is read.
        "resources": {"requests": {"cpu": "100m", "memory": "96Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tls", "mountPath": _MOUNTED, "readOnly": True}],
    }


def _probe(**times: int) -> dict[str, Json]:
    request = {"path": "/health", "port": _PORT_NAME, "scheme": "HTTPS"}
    return {"httpGet": request, "timeoutSeconds": 5, **times}
