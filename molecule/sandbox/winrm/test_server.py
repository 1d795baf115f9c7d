"""HTTP and authentication, byte by byte."""

import base64
import socket
import ssl
import threading
from dataclasses import replace

import pytest
import spnego
from spnego.channel_bindings import GssChannelBindings
from winrm_endpoint import certificates
from winrm_endpoint.__main__ import tls_context
from winrm_endpoint.authentication import Users, bindings_of
from winrm_endpoint.limits import Limits
from winrm_endpoint.server import Endpoint, Listener
from winrm_endpoint.service import Service
from winrm_endpoint.shell import Runner


class Server:
    """An endpoint with HTTP and HTTPS on ports of the kernel's choice."""

    def __init__(self, folder, monkeypatch, **limits):
        users = folder / "users"
        users.write_text(":Administrator:right\nHOST:Administrator:right\n")
        monkeypatch.setenv("NTLM_USER_FILE", str(users))
        monkeypatch.setenv("LM_COMPAT_LEVEL", "5")
        monkeypatch.setenv("KRB5_KTNAME", "FILE:" + str(folder / "none"))
        self.latency = folder / "latency"
        self.tls = str(folder / "tls")
        certificates.make(self.tls, "127.0.0.1", "Administrator")
        context, bindings = tls_context(type("Options", (), {"tls_dir": self.tls, "client_ca": None})())
        limits = replace(Limits(), **limits)
        endpoint = Endpoint(Service(Runner(["/bin/sh", "-c"]), limits, "127.0.0.1"), Users(str(users)), limits, str(self.latency))
        self.http, self.https = Listener(("127.0.0.1", 0), endpoint), Listener(("127.0.0.1", 0), endpoint, context, bindings)
        for listener in (self.http, self.https):
            threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self):
        for listener in (self.http, self.https):
            listener.shutdown()
            listener.server_close()

    def connect(self, secure=False):
        connection = socket.create_connection((self.https if secure else self.http).server_address, timeout=20)
        if secure:
            connection = ssl.create_default_context(cafile=self.tls + "/winrm-ca.crt").wrap_socket(connection, server_hostname="127.0.0.1")
        return connection


@pytest.fixture
def server(tmp_path, monkeypatch, request):
    mark = request.node.get_closest_marker("limits")
    server = Server(tmp_path, monkeypatch, **(mark.kwargs if mark else {}))
    yield server
    server.close()


def ask(connection, body=b"", path="/wsman", method="POST", **headers):
    """The status, the headers (a list of pairs) and the body."""
    headers = {"Content-Length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value is not None)
    connection.sendall(head.encode() + b"\r\n" + body)
    return answer_of(connection)


def answer_of(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            raise ConnectionError("closed without an answer")
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = [tuple(line.split(": ", 1)) for line in lines]
    while len(body) < int(dict(headers)["Content-Length"]):
        body += connection.recv(65536)
    return int(first.split()[1]), headers, body


def challenges(headers):
    return [value for name, value in headers if name == "WWW-Authenticate"]


BASIC = "Basic " + base64.b64encode(b"Administrator:right").decode()
SOAP_TYPE = "application/soap+xml;charset=UTF-8"


def test_who_says_nothing_of_himself_is_asked(server):
    status, headers, body = ask(server.connect())
    assert (status, body) == (401, b"") and challenges(headers) == ["Negotiate", "Kerberos"] and ("Connection", "close") in headers
    assert challenges(ask(server.connect(secure=True))[1]) == ["Negotiate", "Kerberos", 'Basic realm="WSMAN"']


@pytest.mark.parametrize("login", ["Administrator:right", "administrator:right", "HOST\\Administrator:right", "Administrator@host:right"])
def test_basic_over_tls_logs_in(server, login):
    value = "Basic " + base64.b64encode(login.encode()).decode()
    assert ask(server.connect(secure=True), Authorization=value)[0] == 200


@pytest.mark.parametrize("login", ["Administrator:wrong", "Administrator:", "Administrator", ":right", "OTHER\\Administrator:right", "Guest:right", ""])
def test_basic_with_anything_else_does_not(server, login):
    value = "Basic " + base64.b64encode(login.encode()).decode()
    assert ask(server.connect(secure=True), Authorization=value)[0] == 401


def test_basic_without_tls_is_refused_and_asked_of_every_request(server):
    assert ask(server.connect(), Authorization=BASIC)[0] == 401
    connection = server.connect(secure=True)
    assert ask(connection, Authorization=BASIC)[0] == 200
    assert ask(connection)[0] == 401


def negotiate(connection, password="right", bindings=None):
    context = spnego.client("Administrator", password, protocol="ntlm", channel_bindings=bindings)
    token, status = context.step(), 0
    while token:
        status, headers, _ = ask(connection, Authorization=f"Negotiate {base64.b64encode(token).decode()}")
        token = None
        if status == 401 and not context.complete and challenges(headers):
            token = context.step(base64.b64decode(challenges(headers)[0].split()[1]))
    return status, context


def test_negotiate_authenticates_the_connection(server):
    connection = server.connect()
    assert negotiate(connection)[0] == 200
    assert ask(connection)[0] == 200  # no header any more
    assert ask(server.connect())[0] == 401  # another one knows nothing of it


def test_a_login_is_bound_to_the_certificate_if_the_client_binds_it(server):
    connection = server.connect(secure=True)
    right, wrong = bindings_of(connection.getpeercert(binary_form=True)), GssChannelBindings(application_data=b"tls-server-end-point:" + bytes(32))
    assert negotiate(connection, bindings=right)[0] == 200
    assert negotiate(server.connect(secure=True), bindings=wrong)[0] == 401
    assert negotiate(server.connect(secure=True))[0] == 200


def test_a_wrong_password_is_refused_and_the_connection_closed(server):
    connection = server.connect()
    status, _ = negotiate(connection, "wrong")
    assert status == 401 and connection.recv(1) == b""


def test_an_authenticated_connection_that_logs_in_again_and_fails_is_nobody_s(server):
    connection = server.connect()
    negotiate(connection)
    assert negotiate(connection, "wrong")[0] == 401


@pytest.mark.parametrize("header", [
    "Negotiate", "Negotiate ", "Negotiate !!!", "Negotiate AAAA", "Negotiate TlRMTVNTUAAB", "Negotiate TlRMTVNTUAADAAAA", "Negotiate YIIB", "Kerberos AAAA",
    "Negotiate " + "A" * 60_000, "NTLM TlRMTVNTUAAB", "Digest x", "x", "http://schemas.dmtf.org/wbem/wsman/1/wsman/secprofile/https/mutual",
], ids=lambda header: header[:24])
def test_a_token_that_is_none_is_refused(server, header):
    assert ask(server.connect(), Authorization=header)[0] == 401


def test_a_message_in_plain_text_gets_a_bare_500(server):
    connection = server.connect()
    negotiate(connection)
    status, headers, body = ask(connection, b"<x/>", Content_Type=SOAP_TYPE)
    assert (status, body) == (500, b"") and ("Connection", "close") in headers


def test_a_sealed_message_that_was_changed_is_refused(server):
    from winrm_endpoint import sealing

    connection = server.connect()
    _, context = negotiate(connection)
    kind, body = sealing.seal(context, sealing.SPNEGO, b"<x/>")
    position = body.rindex(b"--Encrypted") - 1
    changed = body[:position] + bytes([body[position] ^ 1]) + body[position + 1 :]
    assert ask(connection, changed, Content_Type=kind)[0] == 400


def test_a_message_larger_than_the_envelope_gets_a_413(server):
    connection = server.connect(secure=True)
    status, headers, _ = ask(connection, bytes(512_001), Authorization=BASIC, Content_Type=SOAP_TYPE)
    assert status == 413 and ("Connection", "close") in headers
    largest = ask(server.connect(secure=True), b" " * 512_000, Authorization=BASIC, Content_Type=SOAP_TYPE)
    assert largest[0] == 500 and b"2150858817" in largest[2]  # it was read, and is no XML


def test_announcing_a_large_message_is_enough(server):
    connection = server.connect()
    connection.sendall(b"POST /wsman HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
    assert answer_of(connection)[0] == 413


def test_chunks_are_put_together(server):
    connection = server.connect(secure=True)
    answer = ask(connection, b"2\r\n<x\r\n2;a=b\r\n/>\r\n0\r\nTrailer: 1\r\n\r\n", Authorization=BASIC, Content_Type=SOAP_TYPE, Content_Length=None,
                 Transfer_Encoding="chunked")
    assert answer[0] == 500 and b"no SOAP 1.2 envelope" in answer[2]
    assert ask(connection, Authorization=BASIC)[0] == 200  # nothing was left over


@pytest.mark.parametrize("body, status", [(b"x\r\n", 400), (b"-1\r\n", 400), (b"FFFFFFFFF\r\n", 400), (b"FFFFFF\r\n", 413)])
def test_chunks_that_are_none_are_refused(server, body, status):
    assert ask(server.connect(), body, Content_Length=None, Transfer_Encoding="chunked")[0] == status


@pytest.mark.parametrize("headers, status", [
    ({"Content_Length": "-1"}, 400), ({"Content_Length": "1e3"}, 400), ({"Content_Length": "9" * 30}, 400), ({"Content_Length": None}, 411),
])
def test_a_length_that_is_none_is_refused(server, headers, status):
    assert ask(server.connect(), **headers)[0] == status


def test_other_paths_methods_and_types(server):
    assert ask(server.connect(), path="/other")[0] == 404
    assert ask(server.connect(), method="GET")[0] == 405
    assert ask(server.connect(secure=True), b"x", Authorization=BASIC, Content_Type="text/plain")[0] == 415
    assert ask(server.connect(secure=True), path="/WSMAN?PSVersion=5", Authorization=BASIC)[0] == 200


def test_identify_without_logging_in_tells_no_version(server):
    status, _, body = ask(server.connect(), b"<x/>", WSMANIDENTIFY="unauthenticated")
    assert status == 200 and b"IdentifyResponse" in body and b"20348" not in body


@pytest.mark.limits(connections=2)
def test_there_are_so_many_connections(server):
    open_ones = [server.connect() for _ in range(2)]
    for connection in open_ones:
        connection.sendall(b"POST")
    while True:
        try:
            status = ask(server.connect())[0]
        except ConnectionError:  # refused before the request was read
            status = 503
        if status == 503:  # before both are accepted, the answer is 401
            break
        assert status == 401


def test_the_latency_is_read_anew_for_each_message(server):
    slept = []
    server.https.endpoint.sleep = slept.append
    connection = server.connect(secure=True)
    for text in (None, "25", "0", "x", "1.5"):
        if text is not None:
            server.latency.write_text(text)
        assert ask(connection, Authorization=BASIC)[0] == 200
    assert slept == [0.025, 0.0015]
