"""Independent clients, pywinrm and pypsrp, against the endpoint: one that is started here with /bin/sh as its runner, or, if WINRM_TARGET
names a JSON file, a host of the sandbox (see winhost/winrm_sandbox_test.go)."""

import base64
import hashlib
import http.client
import json
import os
import subprocess
import sys
import time

import pytest
import requests
import spnego
import winrm.exceptions
from pypsrp.client import Client
from pypsrp.encryption import WinRMEncryption
from pypsrp.exceptions import AuthenticationError
from pypsrp.shell import Process, SignalCode, WinRS
from pypsrp.wsman import WSMan
from winrm.protocol import Protocol

PASSWORD = "Not a secret 1"
BLOCK = 250_000  # what Ansible's winrm connection sends at a time


@pytest.fixture(scope="session")
def target(tmp_path_factory):
    """Where the endpoint is, and commands that it runs: copy (stdin to stdout), exit (ends with code 3010), echo."""
    if "WINRM_TARGET" in os.environ:
        with open(os.environ["WINRM_TARGET"], encoding="utf-8") as file:
            yield json.load(file)
        return
    folder = tmp_path_factory.mktemp("endpoint")
    users = folder / "users"
    users.write_text(f":Administrator:{PASSWORD}\n")
    tls = folder / "tls"
    command = [sys.executable, "-m", "winrm_endpoint", "--address", "127.0.0.1", "--http", "25985", "--https", "25986"]
    process = subprocess.Popen([*command, "--users", users, "--tls-dir", tls, "--run", "/bin/sh", "-c"], stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "listens" in line:
            break
    else:
        pytest.fail("the endpoint did not start")
    yield {
        "address": "127.0.0.1", "http": 25985, "https": 25986, "user": "Administrator", "password": PASSWORD, "ca": str(tls / "winrm-ca.crt"),
        "certificate": str(tls / "winrm-client.crt"), "key": str(tls / "winrm-client.key"), "kerberos": "",
        "copy": "cat", "exit": "exit 194", "code": 194, "echo": "echo", "both": "echo out; echo err >&2",
    }
    process.terminate()
    process.wait()


def pywinrm(target, transport, scheme, **more):
    options = {"username": target["user"], "password": target["password"], "ca_trust_path": target["ca"], **more}
    if transport == "certificate":
        options.update(cert_pem=target["certificate"], cert_key_pem=target["key"])
    if transport == "kerberos":
        options.update(username=target["kerberos"])
    return Protocol(endpoint=f"{scheme}://{target['address']}:{target[scheme]}/wsman", transport=transport, **options)


WAYS = [
    ("basic", "https", "auto"), ("certificate", "https", "auto"), ("ntlm", "https", "auto"), ("ntlm", "https", "always"), ("ntlm", "http", "auto"),
    ("ntlm", "http", "always"), ("kerberos", "http", "always"), ("kerberos", "https", "auto"), ("kerberos", "https", "always"),
]


@pytest.fixture(params=WAYS, ids=lambda way: "-".join(way))
def protocol(request, target):
    transport, scheme, encryption = request.param
    if transport == "kerberos":
        log_in(target)
    return pywinrm(target, transport, scheme, message_encryption=encryption)


def log_in(target):
    if not target["kerberos"]:
        pytest.skip("no Kerberos server here: the sandbox's test has one")
    subprocess.run(["kinit", target["kerberos"]], input=target["password"] + "\n", text=True, check=True, capture_output=True)


def collect(protocol, shell, command):
    """Like get_command_output, with the outputs apart even if a Receive times out."""
    out, err, code, done = [], [], None, False
    while not done:
        try:
            one, two, code, done = protocol.get_command_output_raw(shell, command)
        except winrm.exceptions.WinRMOperationTimeoutError:
            continue
        out.append(one)
        err.append(two)
    return b"".join(out), b"".join(err), code


def test_pywinrm_runs_commands_and_sends_binary_input(protocol, target):
    shell = protocol.open_shell()
    command = protocol.run_command(shell, target["both"])
    out, err, code = collect(protocol, shell, command)
    assert (out.strip(), err.strip(), code) == (b"out", b"err", 0)
    protocol.cleanup_command(shell, command)

    command = protocol.run_command(shell, target["exit"])
    assert collect(protocol, shell, command)[2] == target["code"]
    protocol.cleanup_command(shell, command)

    content = os.urandom(1 << 20)
    command = protocol.run_command(shell, target["copy"], console_mode_stdin=False)
    for start in range(0, len(content), BLOCK):
        protocol.send_command_input(shell, command, content[start : start + BLOCK], end=start + BLOCK >= len(content))
    out, err, code = collect(protocol, shell, command)
    assert (hashlib.sha256(out).digest(), err, code) == (hashlib.sha256(content).digest(), b"", 0)
    protocol.cleanup_command(shell, command)
    protocol.close_shell(shell)


@pytest.mark.parametrize("transport, scheme", [("basic", "https"), ("ntlm", "https"), ("ntlm", "http")])
def test_a_wrong_password_is_refused(target, transport, scheme):
    with pytest.raises(winrm.exceptions.InvalidCredentialsError):
        pywinrm(target, transport, scheme, password="wrong").open_shell()


def test_an_unknown_user_is_refused(target):
    with pytest.raises(winrm.exceptions.InvalidCredentialsError):
        pywinrm(target, "ntlm", "http", username="Guest").open_shell()


def test_basic_without_tls_is_refused(target):
    with pytest.raises(winrm.exceptions.InvalidCredentialsError):
        pywinrm(target, "basic", "http").open_shell()


def test_a_message_in_plain_text_is_refused(target):
    with pytest.raises(winrm.exceptions.WinRMTransportError) as refused:
        pywinrm(target, "ntlm", "http", message_encryption="never").open_shell()
    assert refused.value.code == 500


def test_a_certificate_of_another_authority_is_refused(target, tmp_path):
    from winrm_endpoint import certificates

    certificates.make(str(tmp_path), "127.0.0.1", "Administrator")
    stranger = pywinrm({**target, "certificate": str(tmp_path / "winrm-client.crt"), "key": str(tmp_path / "winrm-client.key")}, "certificate", "https")
    with pytest.raises((requests.exceptions.SSLError, requests.exceptions.ConnectionError)):
        stranger.open_shell()


PSRP = [
    {"ssl": True, "auth": "basic"}, {"ssl": True, "auth": "negotiate"}, {"ssl": True, "auth": "ntlm", "encryption": "always"},
    {"ssl": True, "auth": "certificate"},
    {"ssl": False, "auth": "negotiate"}, {"ssl": False, "auth": "ntlm"}, {"ssl": False, "auth": "kerberos"},
]


def pypsrp(target, **options):
    if options["auth"] == "certificate":
        options.update(certificate_pem=target["certificate"], certificate_key_pem=target["key"])
    if options["auth"] == "kerberos":
        log_in(target)
    user = target["kerberos"] if options["auth"] == "kerberos" else target["user"]
    password = options.pop("password", target["password"])
    port = target["https" if options["ssl"] else "http"]
    return {"server": target["address"], "port": port, "username": user, "password": password, "cert_validation": target["ca"], **options}


@pytest.mark.parametrize("options", PSRP, ids=lambda options: f"{options['auth']}-{'https' if options['ssl'] else 'http'}")
def test_pypsrp_runs_commands_and_sends_binary_input(target, options):
    with WSMan(**pypsrp(target, **options)) as wsman:
        wsman.update_max_payload_size()  # asks for MaxEnvelopeSizekb: Sends and answers of nearly 500 KiB
        assert wsman.max_envelope_size == 500 * 1024
        with WinRS(wsman) as shell:
            process = Process(shell, target["exit"])
            process.invoke()
            assert process.rc == target["code"]
            content = os.urandom(1 << 20)
            process = Process(shell, target["copy"])
            process.begin_invoke()
            block = wsman.max_payload_size - 512  # room for what encryption wraps around
            for start in range(0, len(content), block):
                process.send(content[start : start + block], end=start + block >= len(content))
            process.end_invoke()
            assert (process.stdout == content, process.stderr, process.rc) == (True, b"", 0)
            process.signal(SignalCode.TERMINATE)


def test_the_scheme_kerberos_has_a_sealing_of_its_own(target):
    """No client here asks for it: all prefer Negotiate. pypsrp's sealing knows it."""
    log_in(target)
    context = spnego.client(hostname=target["address"], service="HTTP", protocol="kerberos", context_req=spnego.ContextReq.default)
    connection = http.client.HTTPConnection(target["address"], target["http"])
    connection.request("POST", "/wsman", b"", {"Authorization": "Kerberos " + base64.b64encode(context.step()).decode()})
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"")
    context.step(base64.b64decode(answer.getheader("WWW-Authenticate").removeprefix("Kerberos ")))
    sealing = WinRMEncryption(context, WinRMEncryption.KERBEROS)
    identify = (
        b'<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Header/><s:Body>'
        b'<i:Identify xmlns:i="http://schemas.dmtf.org/wbem/wsman/identity/1/wsmanidentity.xsd"/></s:Body></s:Envelope>'
    )
    kind, body = sealing.wrap_message(identify)
    connection.request("POST", "/wsman", body, {"Content-Type": f'{kind};protocol="{WinRMEncryption.KERBEROS}";boundary="Encrypted Boundary"'})
    answer = connection.getresponse()
    assert b"OS: 10.0.20348" in sealing.unwrap_message(answer.read(), "Encrypted Boundary")


def test_pypsrp_s_client_runs_a_command(target):
    out, err, code = Client(**pypsrp(target, ssl=False, auth="negotiate")).execute_cmd(target["echo"] + " hello")
    assert (out.strip(), err, code) == ("hello", "", 0)


def test_pypsrp_with_a_wrong_password_is_refused(target):
    with pytest.raises(AuthenticationError), WSMan(**pypsrp(target, ssl=False, auth="negotiate", password="wrong")) as wsman, WinRS(wsman):
        pass


def test_an_ended_command_stops_and_says_so(target):
    protocol = pywinrm(target, "ntlm", "http")
    shell = protocol.open_shell()
    with WSMan(**pypsrp(target, ssl=False, auth="negotiate")) as wsman:
        command = protocol.run_command(shell, target["copy"], console_mode_stdin=False)
        other = WinRS(wsman, id=shell)
        other._selector_set = selector(shell)
        other.signal(SignalCode.CTRL_C, command)
        assert collect(protocol, shell, command)[2] == 0xC000013A
    protocol.cleanup_command(shell, command)
    protocol.close_shell(shell)


def selector(shell):
    from pypsrp.wsman import SelectorSet

    selectors = SelectorSet()
    selectors.add_option("ShellId", shell)
    return selectors


def test_a_send_goes_through_while_another_connection_waits_for_output(target):
    """The Receive is answered only because of the Send: were the Send behind it, both would wait until the timeout."""
    import threading

    waiting, sending = pywinrm(target, "ntlm", "http", operation_timeout_sec=20), pywinrm(target, "ntlm", "http")
    shell = waiting.open_shell()
    command = waiting.run_command(shell, target["copy"], console_mode_stdin=False)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(collect(waiting, shell, command)))
    thread.start()
    time.sleep(0.2)  # so that the Receive comes first; were it later, the test would still hold
    sending.send_command_input(shell, command, b"through", end=True)
    thread.join()
    assert answers[0][0] == b"through"
    waiting.close_shell(shell)
