"""An OpenID Connect provider on this machine, for the login's tests. Whoever asks is logged in as one reader."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT = "tilescope"


class Provider:
    """Its address, and the key that it signs with: not the one it publishes while `forges`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.forges = False
        self.published, self._forged = (RSAKey.generate_key(2048, {"kid": "one", "alg": "RS256"}) for _ in range(2))
        self._nonce = ""

    def answer(self, path: str, query: dict[str, str]) -> dict[str, Any] | str:
        """What it says at a path; a string is an address that the browser is sent to."""
        if path == "/.well-known/openid-configuration":
            ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            return {"issuer": self.url, **{name: f"{self.url}/{end}" for name, end in ends.items()}}
        if path == "/keys":
            return {"keys": [self.published.as_dict(private=False)]}
        if path == "/authorize":
            self._nonce = query["nonce"]
            return f"{query['redirect_uri']}?{urlencode({'code': 'once', 'state': query['state']})}"
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "sub": "reader", "nonce": self._nonce, "iat": now, "exp": now + 60}
        key = self._forged if self.forges else self.published
        token = jwt.encode({"alg": "RS256", "kid": "one"}, claims, key)
        return {"access_token": "none", "token_type": "Bearer", "id_token": token}


@contextmanager
def running_provider() -> Iterator[Provider]:
    """A provider until the block is left. Its name is another site's than the app's 127.0.0.1."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            answer = provider.answer(asked.path, {name: one[0] for name, one in parse_qs(asked.query).items()})
            body = b"" if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(302 if isinstance(answer, str) else 200)
            if isinstance(answer, str):
                self.send_header("Location", answer)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    provider = Provider(f"http://localhost:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield provider
    server.shutdown()
    server.server_close()
