"""A stand-in for LangSmith's API on loopback: takes batches of runs, or fails as it is told to."""

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

INFO = {
    "version": "0.0.0",
    "batch_ingest_config": {
        "use_multipart_endpoint": False, "scale_up_qsize_trigger": 1000, "scale_up_nthreads_limit": 1,
        "scale_down_nempty_trigger": 4, "size_limit": 100, "size_limit_bytes": 20_971_520,
    },
    "instance_flags": {"gzip_body_enabled": False, "zstd_compression_enabled": False},
}  # fmt: skip


class LangSmithServer:
    """What arrived: `runs` by id, starts and ends merged; `keys` are the API keys of the requests."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.runs: dict[str, dict[str, Any]] = {}
        self.keys: set[str | None] = set()
        self.bodies: list[str] = []
        self.refused = 0


@contextmanager
def langsmith_server(*, status: int = 202, delay_s: float = 0.0) -> Iterator[LangSmithServer]:
    """Serve on a free port; `status` and `delay_s` of the answers to uploads."""
    state: LangSmithServer
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            return

        def do_GET(self) -> None:
            self._answer(200, INFO)

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Content-Encoding") == "gzip":
                raw = gzip.decompress(raw)
            time.sleep(delay_s)
            with lock:
                state.keys.add(self.headers.get("x-api-key"))
                if status >= 400:
                    state.refused += 1
                else:
                    self._take(raw)
            self._answer(status, {})

        do_PATCH = do_POST  # noqa: N815 - the handler's own naming

        @staticmethod
        def _take(raw: bytes) -> None:
            state.bodies.append(raw.decode())
            body = json.loads(raw)
            for run in [*body.get("post", []), *body.get("patch", [])]:
                known = state.runs.setdefault(run["id"], {})
                known.update({k: v for k, v in run.items() if v not in (None, {}, [])})

        def _answer(self, code: int, body: Any) -> None:
            data = json.dumps(body).encode()
            try:
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except (BrokenPipeError, ConnectionResetError):
                return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state = LangSmithServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
