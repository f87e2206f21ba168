"""An OpenID provider of one client: gives tokens over https for its id and secret."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs

import trustme

from tests.http_server import QuietHandler, serving


def token(subject: str) -> str:
    """A token without a signature, as Kafka takes it where it was not told to look for one."""
    now = int(time.time())
    claims = {"sub": subject, "scope": "kafka", "iat": now, "exp": now + 3600}
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": "none"}, claims)
    )
    return f"{head}.{body}."


@contextmanager
def token_server(
    certificate: trustme.LeafCert, client: str, secret: str, subject: str
) -> Iterator[str]:
    """Serve, and give the address; whoever does not say id and secret gets nothing."""
    wanted = "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()

    class Endpoint(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802  # http.server's name for it
            asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            right = self.headers["Authorization"] == wanted
            right = right and asked["grant_type"] == ["client_credentials"]
            answer = {"access_token": token(subject), "token_type": "Bearer", "expires_in": 3600}
            body = json.dumps(answer if right else {"error": "invalid_client"}).encode()
            self.send_response(200 if right else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    with serving(Endpoint, tls=context) as port:
        yield f"https://127.0.0.1:{port}/token"
