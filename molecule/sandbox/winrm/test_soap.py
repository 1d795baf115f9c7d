"""The parser against input that means no good."""

import pytest
from conftest import fault_of, message
from winrm_endpoint.limits import Limits
from winrm_endpoint.sealing import NotSealed, unseal
from winrm_endpoint.soap import SHELL, SOAP, TRANSFER, Fault, Message, parse, seconds

LAUGHS = (
    '<!DOCTYPE x [<!ENTITY a "ha">' + "".join(f'<!ENTITY {chr(98 + i)} "{("&" + chr(97 + i) + ";") * 10}">' for i in range(9)) + "]><x>&j;</x>"
)


@pytest.mark.parametrize("document", [
    b"", b"no xml", b"<a>", b"<a></b>", b"<a/><b/>", b"\x00\x01", b"<a>\xff\xfe</a>", b'<?xml version="1.0" encoding="ebcdic-x"?><a/>',
    LAUGHS.encode(), b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>', b"<a>&e;</a>",
    b"<?run this?><a/>", b"<a>" * 40 + b"</a>" * 40, b"<a>" + b"<b/>" * 20_000 + b"</a>", b"<x:a/>",
], ids=lambda document: document[:24].decode("latin-1"))
def test_a_bad_document_is_a_fault(document):
    with pytest.raises(Fault):
        Message(document)


def test_a_large_text_comes_whole_and_utf_16_is_read():
    text = "A" * 600_000
    assert parse(f"<a>{text}</a>".encode()).text == text
    assert parse("<a>ü</a>".encode("utf-16")).text == "ü"
    assert parse(b"<a>1<b/>2<!-- c -->3<![CDATA[<4>]]></a>").text == "123<4>"


@pytest.mark.parametrize("text, value", [("PT60S", 60), ("PT0.5S", 0.5), ("P1DT1H1M1S", 90061), (" PT2M ", 120)])
def test_durations(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "P", "PT", "60", "PT-1S", "PT1e9S", "P1Y", "PT" + "9" * 40 + "S"])
def test_what_is_no_duration_is_a_fault(text):
    with pytest.raises(Fault):
        seconds(text)


@pytest.mark.parametrize("document, code", [
    (f'<s:Envelope xmlns:s="{SOAP}"><s:Header/></s:Envelope>'.encode(), 2150858817),
    (message("http://example/Do", ""), 2150858771),
    (message(TRANSFER + "/Create", "<rsp:Shell/>", resource="http://schemas.microsoft.com/powershell/Microsoft.PowerShell"), 2150858752),
    (message(TRANSFER + "/Create", "<rsp:Other/>"), 2150858817),
    (message(TRANSFER + "/Create", "<rsp:Shell/>", header='<x:New xmlns:x="urn:x" s:mustUnderstand="true"/>'), 2150858768),
    (message(TRANSFER + "/Create", "<rsp:Shell/>", header="<w:MaxEnvelopeSize>1000</w:MaxEnvelopeSize>"), 2150858823),
    (message(TRANSFER + "/Create", "<rsp:Shell/>", header="<w:MaxEnvelopeSize>many</w:MaxEnvelopeSize>"), 2150858817),
    (message(TRANSFER + "/Create", "<rsp:Shell><rsp:IdleTimeOut>soon</rsp:IdleTimeOut></rsp:Shell>"), 2150858817),
    (message(SHELL + "/Command", "<rsp:CommandLine/>", "00000000-0000-0000-0000-000000000000"), 2150858843),
], ids=str)
def test_a_request_that_makes_no_sense_gets_windows_fault(tester, document, code):
    assert fault_of(tester.say(document)) == code


def test_what_a_client_says_is_escaped_in_answers(tester):
    evil = "]]>&amp;&lt;/s:Body&gt;&quot;"
    for document in (message("&lt;x&gt;" + evil, "", message_id=evil), message(TRANSFER + "/Create", f'<rsp:Shell ShellId="{evil}"/>', message_id=evil)):
        parse(tester.say(document)[1])


class Blind:
    """A security context that nothing decrypts with."""

    def unwrap_winrm(self, header, data):
        raise ValueError("bad signature")


PROTOCOL = "application/HTTP-SPNEGO-session-encrypted"
PART = (
    b"--Encrypted Boundary\r\n\tContent-Type: application/HTTP-SPNEGO-session-encrypted\r\n\tOriginalContent: type=application/soap+xml;charset=UTF-8;"
    b"Length=4\r\n--Encrypted Boundary\r\n\tContent-Type: application/octet-stream\r\n"
)
END = b"--Encrypted Boundary--\r\n"


@pytest.mark.parametrize("body", [
    b"", END, PART, PART + END, PART + b"\x01\x00\x00\x00" + END, PART + b"\xff\xff\xff\xff1234" + END, PART + b"\x04\x00\x00\x00sign1234" + END,
    PART.replace(b"SPNEGO", b"CredSSP") + b"\x00\x00\x00\x001234" + END, PART.replace(b"Length=4", b"Length=-4") + b"\x00\x00\x00\x001234" + END,
    b"--Encrypted Boundary\r\n" * 20_000,
], ids=lambda body: str(len(body)))
def test_a_sealed_body_that_is_none_is_refused(body):
    with pytest.raises(NotSealed):
        unseal(Blind(), PROTOCOL, body)


def test_the_announced_length_has_to_hold():
    class Open(Blind):
        def unwrap_winrm(self, header, data):
            return data

    assert unseal(Open(), PROTOCOL, PART + b"\x00\x00\x00\x001234" + END) == b"1234"
    with pytest.raises(NotSealed):
        unseal(Open(), PROTOCOL, PART + b"\x00\x00\x00\x0012345" + END)


def test_the_limits_are_those_of_windows():
    limits = Limits()
    assert (limits.envelope, limits.shells, limits.processes, limits.operations, limits.connections) == (512_000, 30, 25, 1500, 300)
