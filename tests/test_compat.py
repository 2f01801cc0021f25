"""`kubeauth._compat`: one test for each internal of a library or of CPython that it uses."""

from __future__ import annotations

import argparse
import ast
import asyncio
import os
import pickle
import re
import select
import socket
import ssl
import struct
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import httpcore
import httpx
import httpx2
import pytest

import kubeauth
from kubeauth import _compat, ssl_context
from kubeauth.testing import Answer, APIServer, Authority
from tests.support.raw_server import RawServer, once

ROOT = Path(kubeauth.__file__).parent

both_libraries = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
Library = Any  # the module httpx or httpx2


# httpx and httpx2


@both_libraries
def test_copy_request_copies_all_attributes_but_the_headers(library: Library) -> None:
    request = library.Request(
        "POST", "https://a.example/path", content=b"body", headers={"A": "1"}, extensions={"timeout": {}}
    )
    headers = library.Headers({"B": "2"})

    copy = _compat.copy_request(request, headers)

    assert type(copy) is library.Request
    assert copy.headers is headers
    assert request.headers["A"] == "1"
    assert (copy.method, copy.url) == ("POST", request.url)
    assert (copy.content, copy.extensions) == (b"body", {"timeout": {}})
    assert copy.stream is request.stream
    # The copy has only what is in __dict__, so no base may have slots.
    assert copy.__dict__.keys() == request.__dict__.keys()
    assert not any(getattr(base, "__slots__", ()) for base in library.Request.__mro__)


@both_libraries
def test_get_request_returns_the_request_of_a_response_or_error(library: Library) -> None:
    request = library.Request("GET", "https://a.example")
    assert _compat.get_request(library.Response(200, request=request)) is request
    assert _compat.get_request(library.ReadError("x", request=request)) is request
    for outcome in (library.Response(200), library.ReadError("x")):
        with pytest.raises(RuntimeError):
            _ = outcome.request
        assert _compat.get_request(outcome) is None


@both_libraries
def test_a_sent_body_is_consumed_unless_it_is_bytes(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(b"body")
    with path.open("rb") as file:
        from_file = library.Request("POST", "https://a.example", content=file).stream
        from_iterator = library.Request("POST", "https://a.example", content=iter([b"body"])).stream
        for stream in (from_file, from_iterator):
            assert not _compat.is_body_consumed(stream)
            assert b"".join(stream) == b"body"
            assert _compat.is_body_consumed(stream)

    from_bytes = library.Request("POST", "https://a.example", content=b"body").stream
    assert b"".join(from_bytes) == b"body"
    assert not _compat.is_body_consumed(from_bytes)


@both_libraries
def test_a_sent_async_body_is_consumed(library: Library) -> None:
    async def parts() -> Any:
        yield b"body"

    async def send() -> None:
        stream = library.Request("POST", "https://a.example", content=parts()).stream
        assert not _compat.is_body_consumed(stream)
        assert [part async for part in stream] == [b"body"]
        assert _compat.is_body_consumed(stream)

    asyncio.run(send())


@both_libraries
def test_discarded_content_is_in_no_attribute_and_no_pickle(library: Library) -> None:
    response = library.Response(
        200, json={"token": "sentinel"}, request=library.Request("GET", "https://a.example")
    )
    assert response.text
    assert b"sentinel" in pickle.dumps(response)

    _compat.discard_content(response)
    assert (response.content, response.text) == (b"", "")
    assert b"sentinel" not in pickle.dumps(response)


@both_libraries
def test_a_closed_connection_is_distinguished_from_an_invalid_response(library: Library) -> None:
    def get_error_message(response: bytes) -> str:
        with RawServer(once(response)) as server, library.Client() as client:
            with pytest.raises(library.RemoteProtocolError) as raised:
                client.get(server.url)
        return str(raised.value)

    assert _compat.is_disconnect(get_error_message(b""))
    assert not _compat.is_disconnect(get_error_message(b"not HTTP\r\n\r\n"))


def test_http2_reports_a_closed_connection_by_the_name_of_its_event() -> None:
    from h2.events import ConnectionTerminated

    assert _compat.is_disconnect(str(httpcore.RemoteProtocolError(ConnectionTerminated())))


@both_libraries
def test_an_invalid_redirect_is_recognised(library: Library) -> None:
    def redirect(_: Any) -> Any:
        return library.Response(302, headers={"Location": "https://:x"})

    with library.Client(transport=library.MockTransport(redirect)) as client:
        with pytest.raises(library.RemoteProtocolError) as raised:
            client.get("https://a.example", follow_redirects=True)
    assert _compat.is_invalid_redirect(str(raised.value))


def test_optional_imports_are_skipped_without_an_error() -> None:
    """httpx, httpcore and anyio work without them, but import them by default."""
    program = f"""
import sys
{{skip}}
import httpx, httpcore, anyio
httpx.Client().close()
print(*sorted(name for name in {_compat.OPTIONAL_IMPORTS} if sys.modules.get(name)))
"""
    skip = "from kubeauth._compat import skip_optional_imports; skip_optional_imports()"
    for text, loaded in ((skip, ""), ("", "h2 httpx._main trio")):
        result = subprocess.run(
            [sys.executable, "-c", program.format(skip=text)], capture_output=True, text=True, check=True
        )
        assert result.stdout.strip() == loaded


# ssl


def test_shut_down_keeps_the_tls_state_of_a_socket(authority: Authority) -> None:
    """SSLSocket.shutdown drops it, which is why kubeauth does not call that."""

    def has_tls_after(shut_down: Callable[[ssl.SSLSocket], None]) -> bool:
        context = ssl.create_default_context(cadata=authority.pem.decode())
        with APIServer(authority=authority) as server:
            address = server.url.removeprefix("https://").rpartition(":")
            plain = socket.create_connection((address[0], int(address[2])), 30)
            with context.wrap_socket(plain, server_hostname=address[0]) as connection:
                shut_down(connection)
                return connection.version() is not None

    assert has_tls_after(lambda connection: _compat.shut_down(connection, socket.SHUT_RDWR))
    assert not has_tls_after(lambda connection: connection.shutdown(socket.SHUT_RDWR))


def reset_connection() -> socket.socket:
    """Return a socket whose peer has reset the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()  # resets the connection
        poll = select.poll()
        poll.register(client, select.POLLERR | select.POLLHUP)
        assert poll.poll(60_000)
    return client


@pytest.mark.parametrize("tls_server_name", [None, "other.example"])
def test_a_connection_reset_before_the_handshake_leaves_no_socket_open(
    authority: Authority, tls_server_name: str | None
) -> None:
    """Before Python 3.13, the standard library leaves it to the garbage collector."""
    config = kubeauth.ClientConfig(server="https://h", ca_data=authority.pem, tls_server_name=tls_server_name)
    client = reset_connection()
    descriptor = client.fileno()

    with pytest.raises(OSError, match="reset") as caught:
        ssl_context(config).wrap_socket(client, server_hostname="h")

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert caught.value.__traceback__ is not None  # which references the socket


def test_a_host_name_that_is_not_valid_leaves_no_socket_open(authority: Authority) -> None:
    config = kubeauth.ClientConfig(server="https://h", ca_data=authority.pem)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        descriptor = client.fileno()

        with pytest.raises(ValueError, match="label"):
            ssl_context(config).wrap_socket(client, server_hostname=f"{'a' * 64}.example")

        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


@pytest.mark.parametrize("inject", ["", "import truststore; truststore.inject_into_ssl()"])
def test_tls_server_name_is_verified_also_if_ssl_was_replaced(inject: str, authority: Authority) -> None:
    """truststore, a dependency of httpx2, replaces ssl.SSLContext by a wrapper that ignores sslobject_class."""
    program = f"""
{inject}
import ssl, sys, kubeauth
config = kubeauth.ClientConfig(server="https://h", ca_data=sys.stdin.buffer.read(), tls_server_name="localhost.")
context = kubeauth.ssl_context(config)
for host in "other.example", b"other.example", {"a" * 64 + ".example"!r}:
    wrapped = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=host)
    print(wrapped.server_hostname)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], input=authority.pem, stdout=subprocess.PIPE, check=True
    )

    assert done.stdout.split() == [b"localhost"] * 3


def test_contexts_are_not_subclasses_whose_methods_anyio_calls_in_threads(authority: Authority) -> None:
    config = kubeauth.ClientConfig(server="https://h", ca_data=authority.pem, tls_server_name="other.example")

    assert type(ssl_context(config)) is ssl.SSLContext


# aiohttp


def test_the_request_info_of_aiohttp_is_replaced_in_what_errors_show() -> None:
    import aiohttp
    from multidict import CIMultiDict, CIMultiDictProxy

    def hide(info: Any) -> Any:
        return info._replace(headers=CIMultiDictProxy(CIMultiDict()))

    async def show(url: str) -> str:
        async with aiohttp.ClientSession(headers={"X": "sentinel"}) as session:
            async with session.get(url) as response:
                _compat.hide_request_info(response, hide)
                with pytest.raises(aiohttp.ClientResponseError) as raised:
                    response.raise_for_status()
                return repr(raised.value) + repr(raised.value.request_info)

    with APIServer(tls=False) as server:  # aiohttp leaves TLS connections open for a moment
        server.on("GET", "/", Answer(500))
        assert "sentinel" not in asyncio.run(show(server.url))


def test_the_proxy_of_aiohttp_is_removed_from_an_error() -> None:
    """An error about a server behind an https proxy shows the URL of the proxy."""
    import aiohttp
    from yarl import URL

    key = aiohttp.client_reqrep.ConnectionKey(
        "a.example", 443, True, True, URL("http://user:sentinel@proxy.example"), None, None, None
    )
    error = aiohttp.ClientConnectorError(key, OSError(111, "refused"))
    assert "sentinel" in repr(error)

    _compat.hide_proxy(error)
    assert "sentinel" not in repr(error) + str(error) + repr(vars(error))
    assert "a.example" in str(error)


# CPython


@types.coroutine
def pause() -> Generator[None]:
    yield


def test_suspended_frames_are_recognised() -> None:
    def generate() -> Any:
        yield 1

    async def wait() -> None:
        await pause()

    async def agenerate() -> Any:
        yield 1

    async def take() -> None:
        async_generator = agenerate()
        await anext(async_generator)
        assert _compat.is_suspended(async_generator.ag_frame)
        await async_generator.aclose()

    generator = generate()
    next(generator)
    assert _compat.is_suspended(generator.gi_frame)

    coroutine: Any = wait()
    coroutine.send(None)
    assert _compat.is_suspended(coroutine.cr_frame)
    coroutine.close()

    asyncio.run(take())


def test_frames_that_raised_are_not_suspended() -> None:
    def fail() -> Iterator[int]:
        yield 1
        raise ValueError

    async def fail_later() -> None:
        await pause()
        raise ValueError

    for start in (lambda: list(fail()), lambda: asyncio.run(fail_later())):
        with pytest.raises(ValueError) as raised:  # noqa: PT011 -- it has no text
            start()
        frames = []
        trace = raised.value.__traceback__
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
        assert not _compat.is_suspended(frames[-1])


def test_out_of_threads_is_recognised_by_the_error_message() -> None:
    """In a process whose memory limit allows no more threads."""
    program = """
import resource, threading
from kubeauth._compat import is_out_of_threads
threading.stack_size(1 << 30)
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
event = threading.Event()
try:
    for _ in range(64):
        threading.Thread(target=event.wait, daemon=True).start()
except RuntimeError as error:
    print(is_out_of_threads(error))
event.set()
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.stdout == "True\n", result.stderr


@pytest.mark.skipif(
    sys.version_info < (3, 12), reason="before 3.12, threads start while the interpreter exits"
)
def test_an_exiting_interpreter_is_recognised_by_the_error_message() -> None:
    program = """
import atexit, threading
from kubeauth._compat import is_out_of_threads
def late():
    try:
        threading.Thread(target=print).start()
    except RuntimeError as error:
        print(is_out_of_threads(error))
atexit.register(late)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "True\n"


def test_other_runtime_errors_are_not_out_of_threads() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()

    with pytest.raises(RuntimeError) as raised:
        thread.start()
    assert not _compat.is_out_of_threads(raised.value)
    assert not _compat.is_out_of_threads(OSError("can't start new thread"))


def test_actions_and_flags_of_an_argument_parser() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    path = parser.add_argument("path")
    context = parser.add_argument("-c", "--context")

    assert _compat.argparse_actions(parser) == [path, context]
    assert _compat.argparse_options(parser) == {"-c": context, "--context": context}


# Only _compat uses private names of other libraries


# Documented although they begin with an underscore: methods of namedtuple; the members of kr8s that its adapter
# overrides (it checks the version, and its tests run every call); typeshed, for type checkers alone.
ALLOWED = {"_replace", "_asdict", "_fields"}
ALLOWED_IMPORTS = {"adapters/kr8s.py": {"kr8s._async_utils"}, "cli/_app.py": {"_typeshed"}}


def find_private_uses(path: Path, own: set[str]) -> Iterator[str]:
    """Private names that no class or module of kubeauth defines."""
    name = path.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Attribute)
            and re.match("_[a-z]", node.attr)
            and node.attr not in own | ALLOWED
        ):
            yield f"{name}:{node.lineno}: .{node.attr}"
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "setattr", "hasattr"):
            if isinstance(constant := node.args[1], ast.Constant) and re.match("_[a-z]", str(constant.value)):
                yield f"{name}:{node.lineno}: {constant.value!r}"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            )
            for module in modules:
                is_private = re.search(r"(^|\.)_[a-z]", module) and not module.startswith(("kubeauth.", "__"))
                if is_private and module not in ALLOWED_IMPORTS.get(name, set()):
                    yield f"{name}:{node.lineno}: import of {module}"


def find_own_names() -> set[str]:
    """All names that kubeauth defines."""
    names = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case ast.Name(id=name, ctx=ast.Store()):
                    names.add(name)
                case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                    names.add(name)
        names.update(part.stem for part in (path, *path.relative_to(ROOT).parents))
    return names


def test_private_attributes_of_other_libraries_are_used_in_compat_only() -> None:
    own = find_own_names()
    paths = [path for path in sorted(ROOT.rglob("*.py")) if path.name != "_compat.py"]
    assert [use for path in paths for use in find_private_uses(path, own)] == []

    # Such uses are found in _compat.
    found = "\n".join(find_private_uses(ROOT / "_compat.py", own))
    assert all(name in found for name in ("_request", "_is_stream_consumed", "_conn_key", "_request_info"))
