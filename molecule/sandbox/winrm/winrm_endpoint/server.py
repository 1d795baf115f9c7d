"""HTTP.sys' part: connections, TLS, HTTP/1.1, authentication and sealing around the service."""

import contextlib
import logging
import socket
import socketserver
import ssl
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler

from . import sealing
from .authentication import Login, Refused, Users
from .limits import Limits
from .service import Service, identify

SOAP_TYPE = "application/soap+xml;charset=UTF-8"
REASONS = {200: "", 400: "Bad Request", 401: "", 404: "Not Found", 405: "Method Not Allowed", 411: "Length Required", 413: "Request Entity Too Large",
           415: "", 500: "", 503: "Service Unavailable"}

log = logging.getLogger("winrm")


class Endpoint:
    """What all listeners share."""

    def __init__(self, service: Service, users: Users, limits: Limits, latency_file: str = ""):
        self.service, self.users, self.limits, self._latency_file = service, users, limits, latency_file
        self.connections = threading.BoundedSemaphore(limits.connections)
        self.sleep = time.sleep

    def delay(self) -> None:
        """Waits for as many milliseconds as the latency file says; it may change at any time."""
        if not self._latency_file:
            return
        try:
            with open(self._latency_file, encoding="ascii") as file:
                milliseconds = float(file.read(32) or 0)
        except (OSError, ValueError):
            return
        if 0 < milliseconds < 60_000:
            self.sleep(milliseconds / 1000)


class Listener(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """One port. tls is the context of an HTTPS listener, bindings are its certificate's."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, address: tuple, endpoint: Endpoint, tls: ssl.SSLContext | None = None, bindings=None):
        self.endpoint, self.tls, self.bindings = endpoint, tls, bindings
        super().__init__(address, _Handler)

    def finish_request(self, request, client_address):
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request.settimeout(10)
        if not self.endpoint.connections.acquire(blocking=False):
            if self.tls is None:
                request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            return
        try:
            if self.tls is None:
                super().finish_request(request, client_address)
                return
            with self.tls.wrap_socket(request, server_side=True) as secured:
                super().finish_request(secured, client_address)
        finally:
            self.endpoint.connections.release()

    def handle_error(self, request, client_address):
        log.info("%s: connection ended", client_address[0], exc_info=log.isEnabledFor(logging.DEBUG))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    rbufsize = 1 << 16

    def setup(self):
        self.timeout = self.server.endpoint.limits.connection_idle
        super().setup()
        secure = isinstance(self.connection, ssl.SSLSocket)
        certificate = self.connection.getpeercert(binary_form=True) if secure else b""
        self.login = Login(self.server.endpoint.users, secure, self.server.bindings, certificate or b"")
        self.secure = secure

    def do_POST(self):  # noqa: N802, the name is http.server's
        body = self._body()
        if body is None:
            return
        self.server.endpoint.delay()
        if self.path.partition("?")[0].rstrip("/").lower() != "/wsman":
            return self._answer(404, close=True)
        if self.headers.get("WSMANIDENTIFY", "").lower() == "unauthenticated":
            return self._answer(200, SOAP_TYPE, identify(""))
        authorization = self.headers.get("Authorization", "")
        try:
            outcome = self.login.check(authorization)
        except Refused as refused:
            if authorization:
                log.warning("%s: refused: %s", self.client_address[0], refused)
            return self._answer(401, challenges=self.login.schemes(), close=True)
        if not outcome.user:
            return self._answer(401, challenges=[outcome.token])
        challenges = [outcome.token] if outcome.token else []
        if not body:
            return self._answer(200, challenges=challenges)  # a client that only wants to be known before it seals
        return self._message(body, outcome.user, challenges)

    def _message(self, body: bytes, user: str, challenges: list):
        content_type = self.headers.get("Content-Type", "")
        sealed = sealing.is_sealed(content_type)
        context = self.login.context
        if sealed:
            if context is None:
                return self._answer(400, challenges=challenges, close=True)
            try:
                body = sealing.unseal(context, self.login.protocol, body)
            except sealing.NotSealed as problem:
                log.warning("%s: sealed message refused: %s", self.client_address[0], problem)
                return self._answer(400, challenges=challenges, close=True)
        elif not self.secure:
            log.warning("%s: an unencrypted message was refused", self.client_address[0])
            return self._answer(500, challenges=challenges, close=True)  # AllowUnencrypted is false: Windows says no more
        elif not content_type.lower().startswith("application/soap+xml"):
            return self._answer(415, challenges=challenges, close=True)
        status, answer = self.server.endpoint.service.answer(body, user, self.client_address[0])
        answer_type = SOAP_TYPE
        if sealed:
            answer_type, answer = sealing.seal(context, self.login.protocol, answer)
        return self._answer(status, answer_type, answer, challenges)

    def _body(self):
        """The request's body; None if an error was answered."""
        most = self.server.endpoint.limits.envelope
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            body = self._chunks(most)
        else:
            text = self.headers.get("Content-Length", "")
            if not text.isascii() or not text.isdigit() or len(text) > 12:
                return self._answer(411 if not text else 400, close=True)
            length = int(text)
            if length > most:
                return self._too_large(length)
            body = self.rfile.read(length)
            if len(body) != length:
                self.close_connection = True
                return None
        return body

    def _chunks(self, most: int):
        parts, total = [], 0
        while True:
            line = self.rfile.readline(128)
            size = line.split(b";")[0].strip()
            try:
                if not line.endswith(b"\n") or len(size) > 8 or size[:1] in b"+-":
                    raise ValueError
                length = int(size, 16)
            except ValueError:
                return self._answer(400, close=True)
            total += length
            if total > most:
                return self._too_large(0)
            if length == 0:
                while self.rfile.readline(1024).strip():
                    pass
                return b"".join(parts)
            part = self.rfile.read(length)
            if len(part) != length or self.rfile.readline(16).strip():
                self.close_connection = True
                return None
            parts.append(part)

    def _too_large(self, rest: int):
        self._answer(413, close=True)
        # Read on for a while: closing with unread input would reset the connection before the answer arrives.
        with contextlib.suppress(OSError):
            self.connection.settimeout(2)
            while rest > 0 and (data := self.rfile.read(min(rest, 1 << 16))):
                rest -= len(data)
        return None

    def _answer(self, status: int, content_type: str = "", body: bytes = b"", challenges=(), close: bool = False):
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, '')}"]
        if content_type:
            lines.append(f"Content-Type: {content_type}")
        lines.append("Server: Microsoft-HTTPAPI/2.0")
        lines += [f"WWW-Authenticate: {challenge}" for challenge in challenges]
        lines.append(f"Date: {formatdate(usegmt=True)}")
        if close:
            self.close_connection = True
        if self.close_connection:
            lines.append("Connection: close")
        lines.append(f"Content-Length: {len(body)}\r\n\r\n")
        self.connection.sendall("\r\n".join(lines).encode("latin-1") + body)
        return None

    def _other(self):
        self._answer(405, close=True)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = _other  # noqa: N815

    def log_message(self, format, *args):  # noqa: A002, the signature is http.server's
        log.debug("%s: " + format, self.client_address[0], *args)
