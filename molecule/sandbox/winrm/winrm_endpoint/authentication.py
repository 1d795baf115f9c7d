"""Who is at the other end of a connection. Negotiate and Kerberos authenticate the connection, Basic and certificates each request."""

import base64
import binascii
import hashlib
import hmac
import struct
from dataclasses import dataclass

import spnego
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from spnego.channel_bindings import GssChannelBindings

from . import sealing

MUTUAL = "http://schemas.dmtf.org/wbem/wsman/1/wsman/secprofile/https/mutual"
_UPN = x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")
MAX_TOKEN = 64 * 1024


class Refused(Exception):
    """Not authenticated, and why; the reason goes to the log, never to the client."""


class Users:
    """The accounts, in the format of pyspnego's NTLM_USER_FILE: lines DOMAIN:USER:PASSWORD, where DOMAIN may be empty. One user has several
    lines, one for each domain name that a client may put before the user's."""

    def __init__(self, path: str):
        self._entries: dict = {}
        with open(path, encoding="utf-8") as file:
            for line in file.read().splitlines():
                parts = line.split(":")
                if len(parts) == 3 and parts[1]:
                    self._entries[(parts[0].upper(), parts[1].upper())] = (parts[1], parts[2])
        if not self._entries:
            raise ValueError(f"users file {path}: no line DOMAIN:USER:PASSWORD")

    def check(self, login: str, password: str) -> str:
        domain, _, user = login.rpartition("\\")
        if not domain and "@" in user:
            user, _, domain = user.partition("@")
        name, expected = self._entries.get((domain.upper(), user.upper()), ("", ""))
        # Compared as digests: the time tells nothing, not even about the length.
        same = hmac.compare_digest(hashlib.sha256(password.encode()).digest(), hashlib.sha256(expected.encode()).digest())
        if not name or not same:
            raise Refused("user name or password is wrong")
        return name

    def named(self, principal: str) -> str:
        """The account of an authenticated principal: USER, DOMAIN\\USER or USER@REALM."""
        user = principal.rpartition("\\")[2].partition("@")[0]
        for name, _ in self._entries.values():
            if name.upper() == user.upper():
                return name
        raise Refused(f"{principal} is no user here")


@dataclass
class Outcome:
    """token goes into WWW-Authenticate; without a user the exchange goes on with it."""

    user: str = ""
    token: str = ""


class Login:
    """The authentication state of one connection. secure says that it is TLS, bindings are the server certificate's."""

    def __init__(self, users: Users, secure: bool, bindings=None, client_certificate: bytes = b""):
        self._users, self._secure, self._bindings, self._certificate = users, secure, bindings, client_certificate
        self._context, self._scheme, self._user = None, "", ""

    @property
    def context(self):
        """The security context that seals messages, None before it is complete."""
        return self._context if self._user else None

    @property
    def protocol(self) -> str:
        return sealing.KERBEROS if self._scheme == "Kerberos" else sealing.SPNEGO

    def schemes(self) -> list:
        return ["Negotiate", "Kerberos"] + (['Basic realm="WSMAN"'] if self._secure else [])

    def check(self, authorization: str) -> Outcome:
        """Raises Refused."""
        if not authorization:
            if not self._user:
                raise Refused("")
            return Outcome(self._user)
        if authorization.strip() == MUTUAL:
            return Outcome(self._by_certificate())
        scheme, _, value = authorization.strip().partition(" ")
        if scheme.lower() == "basic":
            return Outcome(self._basic(value))
        for known in ("Negotiate", "Kerberos"):
            if scheme.lower() == known.lower():
                return self._step(known, value)
        raise Refused(f"scheme {scheme[:20]!r} is not offered")

    def _basic(self, value: str) -> str:
        if not self._secure:
            raise Refused("Basic without TLS (AllowUnencrypted is false)")
        login, _, password = _decode(value).decode("utf-8", "replace").partition(":")
        return self._users.check(login, password)

    def _by_certificate(self) -> str:
        """Windows maps a certificate to an account by the user principal name in it."""
        if not self._certificate:
            raise Refused("no client certificate")
        certificate = x509.load_der_x509_certificate(self._certificate)
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.OtherName)
        except x509.ExtensionNotFound:
            names = []
        for name in names:
            if name.type_id == _UPN and len(name.value) > 2 and name.value[0] == 0x0C and name.value[1] < 128:  # a short UTF8String
                return self._users.named(name.value[2:].decode("utf-8", "replace"))
        raise Refused("the client certificate has no user principal name")

    def _step(self, scheme: str, value: str) -> Outcome:
        fresh = self._user or scheme != self._scheme or self._context is None  # a new exchange, be it on an authenticated connection
        try:
            if fresh:
                self._user, self._scheme, self._context = "", scheme, None
                self._context = spnego.server(protocol=scheme.lower(), options=spnego.NegotiateOptions.wrapping_winrm)
            received = _decode(value)
            token = self._context.step(received, channel_bindings=self._bindings if _binds(received) else None)
            answer = scheme + " " + base64.b64encode(token).decode() if token else ""
            if not self._context.complete:
                if not token:
                    raise Refused("the exchange stands still")
                return Outcome(token=answer)
            self._user = self._users.named(self._context.client_principal or "")
            return Outcome(self._user, answer)
        except Refused:
            self._context = None
            raise
        except Exception as error:  # hostile tokens raise whatever struct, ASN.1 and the security packages raise
            self._context, self._user = None, ""
            raise Refused(f"{scheme}: {error}") from error


def _binds(token: bytes) -> bool:
    """Whether the acceptor may check the channel bindings: CbtHardeningLevel is Relaxed, so a client may send none. MIT Kerberos sees to
    that itself, pyspnego's NTLM does not: this looks for MsvAvChannelBindings in an AUTHENTICATE_MESSAGE (MS-NLMP 2.2.1.3, 2.2.2.1)."""
    start = token.find(b"NTLMSSP\0")
    if start < 0:
        return True
    message = token[start:]
    if len(message) < 28 or message[8:12] != b"\3\0\0\0":
        return False
    length, _, offset = struct.unpack_from("<HHI", message, 20)
    pairs = message[offset : offset + length][44:]  # behind the proof and the fixed part of NTLMv2_CLIENT_CHALLENGE
    while len(pairs) >= 4:
        kind, size = struct.unpack_from("<HH", pairs)
        if kind == 10:
            return True
        pairs = pairs[4 + size :]
    return False


def _decode(value: str) -> bytes:
    if len(value) > MAX_TOKEN:
        raise Refused("the token is too long")
    try:
        return binascii.a2b_base64(value.strip(), strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise Refused("the token is not base64") from error


def bindings_of(certificate: bytes) -> GssChannelBindings:
    """RFC 5929's tls-server-end-point of a DER certificate."""
    algorithm = x509.load_der_x509_certificate(certificate).signature_hash_algorithm
    if algorithm is None or algorithm.name in ("md5", "sha1"):
        algorithm = hashes.SHA256()
    digest = hashes.Hash(algorithm)
    digest.update(certificate)
    return GssChannelBindings(application_data=b"tls-server-end-point:" + digest.finalize())
