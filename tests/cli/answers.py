"""Answers of servers and of those in between, good and bad: by the path they are given at."""

from __future__ import annotations

from typing import Any

from kubeauth.testing import Answer, APIServer

TEXT = {"Content-Type": "text/plain; charset=utf-8"}
HTML = {"Content-Type": "text/html"}


def status(code: int, reason: str, message: str, **more: Any) -> Answer:
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code}
    return Answer(code, {**body, "reason": reason, "message": message, **more})


REFUSALS = {
    "/not-found": status(404, "NotFound", 'namespaces "x" not found'),
    "/forbidden": status(403, "Forbidden", 'pods is forbidden: User "alice" cannot list resource "pods"'),
    "/unauthorized": status(401, "Unauthorized", "Unauthorized"),
    "/expired": status(410, "Expired", "too old resource version: 1 (5)"),
    "/without-reason": status(500, "", "boom"),
    "/404-empty": Answer(404),
    "/404-text": Answer(404, b"404 page not found\n", TEXT),
    "/401-empty": Answer(401),
    "/403-html": Answer(403, b"<html>no</html>\n", HTML),
    "/400": Answer(400, b"bad thing", TEXT),
    "/405": Answer(405, b"x"),
    "/406": Answer(406, b"only protobuf", TEXT),
    "/406-empty": Answer(406),
    "/409": Answer(409, b"x"),
    "/410-empty": Answer(410),
    "/418": Answer(418, b"tea", TEXT),
    "/502-html": Answer(502, b"<html><h1>502 Bad Gateway</h1></html>\n", HTML),
    "/500-text": Answer(500, b'kaputt "so"\n', TEXT),
    "/500-json": Answer(500, {"error": "x"}),
    "/500-empty": Answer(500),
    "/500-bad-json": Answer(500, b"{", {"Content-Type": "application/json"}),
    "/503": Answer(503, b"x"),
    "/504": Answer(504, b"x"),
    "/300": Answer(300, b"several"),
    "/301-nowhere": Answer(301, b"hm"),
    "/304": Answer(304),
}
ANSWERS = {
    "/text": Answer(200, b"ok", TEXT),
    "/empty": Answer(200),
    "/no-content": Answer(204),
    "/login-page": Answer(200, b"<html>log in</html>\n", HTML),
    "/bad-json": Answer(200, b'{"a":', {"Content-Type": "application/json"}),
    "/status-of-success": Answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}),
    "/elsewhere": Answer(302, b"", {"Location": "/version"}),
}


def add_to(server: APIServer) -> None:
    for path, answer in {**REFUSALS, **ANSWERS}.items():
        server.on("GET", path, answer)
