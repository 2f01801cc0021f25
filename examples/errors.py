"""Errors are for people and for programs: a sentence to print, attributes to act on."""

from __future__ import annotations

import kubeauth

broken = b"""
current-context: prod
contexts: [{name: prod, context: {cluster: prod, user: alice}}]
clusters: [{name: prod, cluster: {server: https://prod.example.com}}]
users: [{name: alice, user: {token: 12345}}]
"""

try:
    kubeauth.load_config(broken)
except kubeauth.errors.KubeConfigError as error:
    print(error)
    for problem in error.problems:
        print("field:", problem.field, "| hint:", problem.hint)
