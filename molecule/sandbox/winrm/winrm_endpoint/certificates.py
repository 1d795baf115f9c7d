"""Certificates for development: an authority, a server's and a client's. The sandbox brings its own."""

import datetime
import ipaddress
import os

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

UPN = x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")


def make(folder: str, address: str, user: str) -> None:
    """Writes winrm-ca, winrm-server and winrm-client (.crt and .key) into folder, unless they are there."""
    if os.path.exists(os.path.join(folder, "winrm-client.key")):
        return
    os.makedirs(folder, mode=0o700, exist_ok=True)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _name("WinRM development")
    certificate = _sign(authority, authority, authority_key.public_key(), authority_key, [(x509.BasicConstraints(True, None), True)])
    _write(folder, "winrm-ca", certificate, authority_key)
    server_names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address)), x509.DNSName("localhost")])
    upn = f"{user}@localhost".encode()
    client_names = x509.SubjectAlternativeName([x509.OtherName(UPN, bytes([0x0C, len(upn)]) + upn)])
    for name, subject, names, usage in (
        ("winrm-server", address, server_names, ExtendedKeyUsageOID.SERVER_AUTH),
        ("winrm-client", user, client_names, ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        extensions = [(names, False), (x509.ExtendedKeyUsage([usage]), False), (x509.BasicConstraints(False, None), True)]
        _write(folder, name, _sign(_name(subject), authority, key.public_key(), authority_key, extensions), key)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _sign(subject, issuer, public_key, issuer_key, extensions):
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public_key).serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=365))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(issuer_key, hashes.SHA256())


def _write(folder: str, name: str, certificate, key) -> None:
    with open(os.path.join(folder, name + ".crt"), "wb") as file:
        file.write(certificate.public_bytes(serialization.Encoding.PEM))
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with open(os.open(os.path.join(folder, name + ".key"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(secret)
