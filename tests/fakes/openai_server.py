"""An OpenAI-compatible chat endpoint on loopback with a script of answers; for the real ChatOpenAI."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One scripted HTTP answer."""

    text: str = ""
    status: int = 200
    finish_reason: str = "stop"
    usage: dict[str, int] | None = field(
        default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    )
    refusal: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    """The raw body in place of a chat completion."""
    content_type: str = "application/json"
    delay_s: float = 0.0
    hang_up: bool = False


def failure(status: int, message: str, *, code: str | None = None, **headers: str) -> Answer:
    """An error answer in OpenAI's form; header names have `_` for `-`."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": code}})
    return Answer(status=status, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})


HTML = Answer(
    body="<!DOCTYPE html><html><body><h1>Welcome to nginx!</h1></body></html>", content_type="text/html"
)


class OpenAIServer:
    """A running endpoint; `requests` holds each body, `leftover` what was not asked for."""

    def __init__(self, url: str, script: list[Answer]) -> None:
        self.url = url
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.authorization: list[str | None] = []


@contextmanager
def openai_server(*script: Answer) -> Iterator[OpenAIServer]:
    """Serve `script` on a free loopback port; a call past its end is answered with status 418."""
    state: OpenAIServer
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            return

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with lock:
                state.requests.append(json.loads(raw))
                state.times.append(time.monotonic())
                state.authorization.append(self.headers.get("Authorization"))
                answer = state.script.pop(0) if state.script else failure(418, "the script is at its end")
            time.sleep(answer.delay_s)
            if answer.hang_up:
                self.close_connection = True
                return
            self._send(answer)

        def _send(self, answer: Answer) -> None:
            data = (answer.body if answer.body is not None else json.dumps(_completion(answer))).encode()
            try:
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.content_type)
                self.send_header("Content-Length", str(len(data)))
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
            except (BrokenPipeError, ConnectionResetError):
                return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state = OpenAIServer(f"http://127.0.0.1:{server.server_port}/v1", list(script))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _completion(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.refusal:
        message = {"role": "assistant", "content": None, "refusal": answer.refusal}
    body: dict[str, Any] = {
        "id": "chatcmpl-fake", "object": "chat.completion", "created": 1, "model": "fake",
        "choices": [{"index": 0, "finish_reason": answer.finish_reason, "message": message}],
    }  # fmt: skip
    if answer.usage is not None:
        body["usage"] = answer.usage
    return body
