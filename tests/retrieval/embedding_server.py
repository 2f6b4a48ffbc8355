"""A small embeddings endpoint on a real socket, scriptable: what it was asked, and what it answers next."""

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from retrieval.encode.hash import HashEncoder

type_of_reply = tuple[int, dict[str, str], bytes]


class EmbeddingServer(ThreadingHTTPServer):
    """Answers with the hash encoder's vectors, unscaled, in reverse order; `replies` are sent first."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.encoder = HashEncoder(96)
        self.requests: list[dict[str, Any]] = []
        self.replies: deque[type_of_reply] = deque()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def answer(self, body: dict[str, Any]) -> type_of_reply:
        self.requests.append(body)
        if self.replies:
            return self.replies.popleft()
        vectors = self.encoder.encode_passages(body["input"]) * 3
        data = [{"index": n, "embedding": vector.tolist()} for n, vector in enumerate(vectors)]
        return 200, {}, json.dumps({"object": "list", "data": data[::-1]}).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: EmbeddingServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, headers, content = self.server.answer(body) if self.path == "/v1/embeddings" else (404, {}, b"no such")
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def serving() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
