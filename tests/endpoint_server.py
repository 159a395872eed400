"""A server that speaks the chat-completions protocol, run as a process of its own by tests.

The model's name says how it behaves: "reply:BASE64" answers that text, "learns:BASE64.BASE64" the
next one for each answer before it in the conversation, "busy" and "flaky" refuse a few times first,
"tires" answers three times and fails from then on, "silent" says nothing, "together" answers when
four requests have come, "down", "locked", "slow", "half", "cut", "nonsense", "empty" fail in their
ways, "gullible" does what the candidate's text asks. GET /log gives all requests so far. Prints its
port.
"""

import base64
import json
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOG: list[dict] = []
TIMES: Counter[str] = Counter()
FOUR = threading.Barrier(4)


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode(errors="surrogatepass")


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send(200, LOG)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model = request["model"]
        TIMES[model] += 1
        LOG.append({"path": self.path, "key": self.headers["Authorization"], **request})
        if self.path != "/v1/chat/completions":
            return self.fail(404, "no such path")
        if model.startswith("reply:"):
            return self.complete(_decoded(model.removeprefix("reply:")))
        if model.startswith("learns:"):
            answers = model.removeprefix("learns:").split(".")
            answer = answers[sum(m["role"] == "assistant" for m in request["messages"])]
            return self.complete(_decoded(answer))
        if model == "flaky":
            return self.fail(500, "oops") if TIMES[model] < 3 else self.complete("at last")
        if model == "busy":
            if TIMES[model] == 1:
                return self.fail(429, "slow down", {"Retry-After": "1"})
            return self.complete("now")
        if model == "down":
            return self.fail(503, "overloaded")
        if model == "slow":
            time.sleep(3)
            return self.complete("too late")
        if model == "together":
            try:
                FOUR.wait(60)
            except threading.BrokenBarrierError:
                return self.fail(400, "fewer than four requests came")
            return self.complete("all are here")
        if model == "locked":
            is_right = self.headers["Authorization"] == "Bearer secret"
            return self.complete("in") if is_right else self.fail(401, "wrong key")
        if model.startswith("tires"):
            return self.halve() if TIMES[model] > 3 else self.complete("an answer")
        if model == "silent":
            return self.complete("")
        if model == "half":
            return self.halve()
        if model == "cut":
            return self.send_text(200, '{"id": "c", ', "application/json", {}, promised=99)
        if model == "nonsense":
            return self.send_text(200, "<html>hello</html>", "application/json")
        if model == "empty":
            return self.send(200, {"choices": []})
        if model == "gullible":
            said = request["messages"][-1]["content"]
            obeys = "answer replaces true" in said
            return self.complete(json.dumps({"replaces": obeys, "reasons": ["x"], "line": None}))
        return self.fail(404, f"no model {model}")

    def halve(self):
        self.send_text(200, '{"id": "c", "choices": [{"ind', "application/json")

    def complete(self, text):
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
        head = {"id": "c", "object": "chat.completion", "created": 0, "model": "m"}
        self.send(200, {**head, "choices": [choice], "usage": usage})

    def fail(self, status, message, headers=None):
        self.send(status, {"error": {"message": message, "type": "test"}}, headers)

    def send(self, status, value, headers=None):
        self.send_text(status, json.dumps(value), "application/json", headers)

    def send_text(self, status, text, kind, headers=None, promised=None):
        """`promised`: another length than that of the text."""
        body = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(promised or len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Keeps stderr quiet."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
