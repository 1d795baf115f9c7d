"""Message encryption of MS-WSMV 2.2.9.1: one SOAP message, sealed by the connection's security context, as a MIME body."""

import re
import struct

SPNEGO = "application/HTTP-SPNEGO-session-encrypted"
KERBEROS = "application/HTTP-Kerberos-session-encrypted"
BOUNDARY = b"Encrypted Boundary"

_PART = re.compile(
    rb"--\s*Encrypted Boundary\r\n\s*Content-Type:\s*([^\r\n;]+)\r\n\s*OriginalContent:\s*([^\r\n]*?)Length=(\d{1,9})[^\r\n]*\r\n"
    rb"--\s*Encrypted Boundary\r\n\s*Content-Type:\s*application/octet-stream\r\n",
    re.IGNORECASE,
)
_END = re.compile(rb"--\s*Encrypted Boundary--\s*\Z")


class NotSealed(Exception):
    """The body is not what its Content-Type says, or it does not decrypt."""


def is_sealed(content_type: str) -> bool:
    return content_type.lower().lstrip().startswith("multipart/encrypted")


def unseal(context, protocol: str, body: bytes) -> bytes:
    head, end = _PART.match(body), _END.search(body, max(0, len(body) - 64))
    if not head or not end or head.group(1).decode("latin-1").strip().lower() != protocol.lower():
        raise NotSealed(f"it is no multipart/encrypted body of {protocol}")
    sealed = memoryview(body)[head.end() : end.start()]
    if len(sealed) < 4:
        raise NotSealed("it is too short")
    length = struct.unpack("<I", sealed[:4])[0]
    if length > len(sealed) - 4:
        raise NotSealed("its signature is longer than the body")
    try:
        message = context.unwrap_winrm(bytes(sealed[4 : 4 + length]), bytes(sealed[4 + length :]))
    except Exception as error:  # the security packages have no common class of errors
        raise NotSealed(f"it does not decrypt: {error}") from error
    if len(message) != int(head.group(3)):
        raise NotSealed("its length differs from the announced one")
    return message


def seal(context, protocol: str, message: bytes) -> tuple:
    """The Content-Type and the body."""
    sealed = context.wrap_winrm(message)
    boundary = BOUNDARY.decode()
    head = (
        f"--{boundary}\r\n\tContent-Type: {protocol}\r\n\tOriginalContent: type=application/soap+xml;charset=UTF-8;Length="
        f"{len(message) + sealed.padding_length}\r\n--{boundary}\r\n\tContent-Type: application/octet-stream\r\n"
    )
    body = b"".join((head.encode(), struct.pack("<I", len(sealed.header)), sealed.header, sealed.data, b"--", BOUNDARY, b"--\r\n"))
    return f'multipart/encrypted;protocol="{protocol}";boundary="{boundary}"', body
