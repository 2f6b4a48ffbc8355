"""A real git server over HTTP(S) on the loopback, with Basic authentication where a token is given."""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from dulwich.repo import Repo
from dulwich.server import DictBackend
from dulwich.web import GunzipFilter, HTTPGitApplication


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class GitServer:
    """Serves one repository under /team/app. `asked` are the paths asked for, in order."""

    def __init__(self, path: Path, *, token: str | None = None) -> None:
        self._repo = Repo(str(path))
        self._app = GunzipFilter(HTTPGitApplication(DictBackend({"/team/app": self._repo})))
        self._token = token
        self.asked: list[str] = []
        self.authorizations: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        self.asked.append(environ["PATH_INFO"])
        given = environ.get("HTTP_AUTHORIZATION", "")
        self.authorizations.append(given)
        if self._token is not None:
            _, _, encoded = given.partition(" ")
            if base64.b64decode(encoded).decode().partition(":")[2] != self._token:
                start_response("401 Unauthorized", [("WWW-Authenticate", 'Basic realm="git"'), ("Content-Length", "0")])
                return [b""]
        # libgit2 reads no body whose length it is not told, and this plain server cannot send it in pieces.
        body = bytearray()
        begun: list[tuple[str, list[tuple[str, str]]]] = []

        def begin(status: str, headers: list[tuple[str, str]], *_: Any) -> Callable[[bytes], None]:
            begun.append((status, headers))
            return body.extend

        for piece in self._app(environ, begin):
            body.extend(piece)
        status, headers = begun[-1]
        start_response(status, [*headers, ("Content-Length", str(len(body)))])
        return [bytes(body)]

    def close(self) -> None:
        self._repo.close()


@contextmanager
def serving(server: Callable[..., Any], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve a WSGI application on a free port; yields its address."""
    listening: WSGIServer = make_server("127.0.0.1", 0, server, handler_class=_Quiet)
    scheme = "http"
    if tls is not None:
        listening.socket = tls.wrap_socket(listening.socket, server_side=True)
        scheme = "https"
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"{scheme}://localhost:{listening.server_port}"
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()
