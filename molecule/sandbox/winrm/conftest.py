"""What the tests share: messages, and a service whose commands run in /bin/sh."""

import base64
import re
from dataclasses import replace

import pytest
from winrm_endpoint.limits import Limits
from winrm_endpoint.service import CMD, SIGNAL, Service
from winrm_endpoint.shell import Runner
from winrm_endpoint.soap import ADDRESSING, SHELL, SOAP, TRANSFER, WSMAN


def message(action, body, shell="", resource=CMD, header="", message_id="uuid:1", timeout="PT20S"):
    selectors = f'<w:SelectorSet><w:Selector Name="ShellId">{shell}</w:Selector></w:SelectorSet>' if shell else ""
    return (
        f'<s:Envelope xmlns:s="{SOAP}" xmlns:a="{ADDRESSING}" xmlns:w="{WSMAN}" xmlns:rsp="{SHELL}"><s:Header><a:Action>{action}</a:Action>'
        f"<a:MessageID>{message_id}</a:MessageID><w:ResourceURI>{resource}</w:ResourceURI><w:OperationTimeout>{timeout}</w:OperationTimeout>"
        f"{selectors}{header}</s:Header><s:Body>{body}</s:Body></s:Envelope>"
    ).encode()


def fault_of(answer):
    status, document = answer
    assert status == 500, document
    return int(re.search(rb'Code="(\d+)"', document).group(1))


class Tester:
    """Speaks to a service as one user."""

    def __init__(self, service):
        self.service = service

    def say(self, document):
        return self.service.answer(document, "Administrator", "192.0.2.1")

    def good(self, document):
        status, answer = self.say(document)
        assert status == 200, answer
        return answer

    def create(self, body="<rsp:Shell/>"):
        return re.search(rb'Name="ShellId">([^<]+)', self.good(message(TRANSFER + "/Create", body))).group(1).decode()

    def command(self, shell, line, options=""):
        body = f"<rsp:CommandLine><rsp:Command>{line}</rsp:Command></rsp:CommandLine>"
        header = f"<w:OptionSet>{options}</w:OptionSet>"
        return re.search(rb"CommandId>([^<]+)", self.good(message(SHELL + "/Command", body, shell, header=header))).group(1).decode()

    def send(self, shell, command, data=b"", end=False, timeout="PT20S"):
        text = base64.b64encode(data).decode()
        last = 'End="true"' if end else ""
        body = f'<rsp:Send><rsp:Stream Name="stdin" CommandId="{command}" {last}>{text}</rsp:Stream></rsp:Send>'
        return self.say(message(SHELL + "/Send", body, shell, timeout=timeout))

    def receive(self, shell, command, **more):
        body = f'<rsp:Receive><rsp:DesiredStream CommandId="{command}">stdout stderr</rsp:DesiredStream></rsp:Receive>'
        return self.say(message(SHELL + "/Receive", body, shell, **more))

    def signal(self, shell, command, code="terminate"):
        return self.say(message(SHELL + "/Signal", f'<rsp:Signal CommandId="{command}"><rsp:Code>{SIGNAL}{code}</rsp:Code></rsp:Signal>', shell))

    def delete(self, shell):
        return self.say(message(TRANSFER + "/Delete", "", shell))

    def output(self, shell, command):
        """Everything on stdout until the end, and the exit code."""
        out = b""
        while True:
            status, answer = self.receive(shell, command, message_id="")
            assert status == 200, answer
            out += b"".join(base64.b64decode(piece) for piece in re.findall(rb'Name="stdout"[^>]*>([^<]*)', answer))
            if code := re.search(rb"ExitCode>(\d+)", answer):
                return out, int(code.group(1))


@pytest.fixture
def tester(request):
    """limits are given by @pytest.mark.limits(...)."""
    mark = request.node.get_closest_marker("limits")
    service = Service(Runner(["/bin/sh", "-c"]), replace(Limits(), **(mark.kwargs if mark else {})), "192.0.2.2")
    yield Tester(service)
    service.close()


def pytest_configure(config):
    config.addinivalue_line("markers", "limits: other limits for the service")
