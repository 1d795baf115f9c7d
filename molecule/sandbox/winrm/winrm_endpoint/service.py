"""The operations of the cmd shell's resource: Create, Command, Send, Receive, Signal, Delete, Get, and Identify."""

import binascii
import logging
import platform
from xml.sax.saxutils import escape

import pybase64

from .command import STREAMS, Aborted
from .limits import Limits
from .shell import Runner, Shell, Shells, new_id
from .soap import IDENTITY, SHELL, SOAP, TRANSFER, WSMAN, Element, Fault, Message, envelope, fault_envelope, invalid_xml, seconds

CMD = SHELL + "/cmd"
CONFIG = "http://schemas.microsoft.com/wbem/wsman/1/config"
STATE = SHELL + "/CommandState/"
SIGNAL = SHELL + "/signal/"
# What an answer to Receive holds beside the base64 of its streams, at most.
RECEIVE_OVERHEAD = 3072

log = logging.getLogger("winrm")


class Service:
    """Answers messages; one of it serves all connections."""

    def __init__(self, runner: Runner, limits: Limits, address: str):
        self._limits, self._address, self._machine = limits, address, platform.node()
        self._shells = Shells(runner, limits)

    def close(self) -> None:
        self._shells.close()

    def answer(self, document: bytes, user: str, client: str) -> tuple:
        """The HTTP status and the answer's envelope."""
        message_id = ""
        try:
            message = Message(document)
            message_id = message.id
            if message.body is not None and message.body.name == IDENTITY + "}Identify":
                return 200, identify(user)
            message.check_understood()
            message.max_envelope(self._limits.least_envelope, self._limits.envelope)
            self._shells.begin()
            try:
                action, body = self._do(message, user, client)
            finally:
                self._shells.end()
            return 200, envelope(action, message_id, body)
        except Fault as fault:
            if fault.code != 2150858793:  # which is how a Receive without output ends
                log.info("%s: fault %d %s", client, fault.code, fault.text)
            return 500, fault_envelope(fault, message_id, self._address)

    def _do(self, message: Message, user: str, client: str) -> tuple:
        if message.action == TRANSFER + "/Get":
            return TRANSFER + "/GetResponse", self._get(message)
        if message.resource != CMD:
            raise Fault(2150858752, "a:DestinationUnreachable", f"The WS-Management service cannot process the request. The resource URI "
                        f"({message.resource}) was not found in the WS-Management catalog. The catalog contains the metadata that describes resources, or "
                        "logical endpoints.")
        if message.action == TRANSFER + "/Create":
            return TRANSFER + "/CreateResponse", self._create(message, user, client)
        operation = {
            TRANSFER + "/Delete": self._delete, SHELL + "/Command": self._command, SHELL + "/Send": self._send,
            SHELL + "/Receive": self._receive, SHELL + "/Signal": self._signal,
        }.get(message.action)
        if operation is None:
            raise Fault(2150858771, "a:ActionNotSupported", "The WS-Management service cannot process the request because it contains an unsupported "
                        f"action: {message.action}.")
        with self._shells.use(message.shell_id()) as shell:
            return message.action + "Response", operation(message, shell)

    def _create(self, message: Message, user: str, client: str) -> bytes:
        body = _body(message, "Shell")
        idle = body.value(SHELL + "}IdleTimeOut") or body.value(SHELL + "}IdleTimeout")
        variables = body.find(SHELL + "}Environment")
        shell = Shell(
            id=(body.attributes.get("ShellId") or new_id()).upper(),
            owner=user,
            client=client,
            idle_timeout=max(self._limits.least_idle_timeout, _idle(idle)) if idle else self._limits.idle_timeout,
            input_streams=body.value(SHELL + "}InputStreams", "stdin"),
            output_streams=body.value(SHELL + "}OutputStreams", "stdout stderr"),
            directory=body.value(SHELL + "}WorkingDirectory"),
            environment={} if variables is None else {one.attributes.get("Name", ""): one.text for one in variables.all(SHELL + "}Variable")},
            name=body.value(SHELL + "}Name"),
        )
        self._shells.create(shell)
        log.info("%s: shell %s of %s", client, shell.id, user)
        return (
            f"<x:ResourceCreated><a:Address>http://{self._address}/wsman</a:Address><a:ReferenceParameters><w:ResourceURI>{CMD}</w:ResourceURI><w:SelectorSet>"
            f'<w:Selector Name="ShellId">{escape(shell.id)}</w:Selector></w:SelectorSet></a:ReferenceParameters></x:ResourceCreated>'
        ).encode() + _describe(shell)

    def _get(self, message: Message) -> bytes:
        if message.resource == CONFIG:
            limits = self._limits
            return (
                f'<cfg:Config xmlns:cfg="{CONFIG}"><cfg:MaxEnvelopeSizekb>{limits.envelope // 1024}</cfg:MaxEnvelopeSizekb><cfg:MaxTimeoutms>'
                f"{int(limits.operation_timeout * 1000)}</cfg:MaxTimeoutms><cfg:Winrs><cfg:AllowRemoteShellAccess>true</cfg:AllowRemoteShellAccess>"
                f"<cfg:MaxProcessesPerShell>{limits.processes}</cfg:MaxProcessesPerShell><cfg:MaxShellsPerUser>{limits.shells}</cfg:MaxShellsPerUser>"
                "</cfg:Winrs></cfg:Config>"
            ).encode()
        with self._shells.use(message.shell_id()) as shell:
            return _describe(shell)

    def _delete(self, _message: Message, shell: Shell) -> bytes:
        self._shells.delete(shell)
        return b""

    def _command(self, message: Message, shell: Shell) -> bytes:
        body = _body(message, "CommandLine")
        line = " ".join([body.value(SHELL + "}Command"), *(argument.text for argument in body.all(SHELL + "}Arguments"))])
        if not line.strip() or "\0" in line:
            raise invalid_xml("The command line is empty.")
        command_id = (body.attributes.get("CommandId") or new_id()).upper()
        # Not given is a pipe: binary input passes, as the clients that never name the option need it.
        self._shells.run(shell, command_id, line, message.option("WINRS_SKIP_CMD_SHELL"), message.option("WINRS_CONSOLEMODE_STDIN"))
        return f"<rsp:CommandResponse><rsp:CommandId>{escape(command_id)}</rsp:CommandId></rsp:CommandResponse>".encode()

    def _send(self, message: Message, shell: Shell) -> bytes:
        body = _body(message, "Send")
        pieces: dict = {}
        for stream in body.all(SHELL + "}Stream"):
            if stream.attributes.get("Name", "").lower() != "stdin":
                raise Fault(2150858810, "w:InvalidParameter", "The WS-Management service cannot process the request because a parameter is not valid. "
                            "The only input stream is stdin.")
            data = pieces.setdefault(stream.attributes.get("CommandId", ""), [bytearray(), False])
            data[0] += _decode(stream.text)
            data[1] = data[1] or stream.attributes.get("End", "").lower() in ("true", "1")
        timeout = message.timeout(self._limits.operation_timeout)
        for command_id, (data, end) in pieces.items():
            sent = self._shells.command(shell, command_id).send(bytes(data), end, timeout)
            if sent.lost:
                raise Fault(2147942632, "w:InternalError", "The pipe is being closed. ", sender=False)
            if not sent.written.is_set():
                raise _timed_out()
        return b"<rsp:SendResponse/>"

    def _receive(self, message: Message, shell: Shell) -> bytes:
        desired = _body(message, "Receive").find(SHELL + "}DesiredStream")
        if desired is None:
            raise invalid_xml("DesiredStream is missing.")
        wanted = [name for name in STREAMS if name in desired.text.lower().split()]
        command = self._shells.command(shell, desired.attributes.get("CommandId", ""))
        limit = message.max_envelope(self._limits.least_envelope, self._limits.envelope)
        timeout = message.timeout(self._limits.operation_timeout)
        return command.receives.answer(message.id, lambda: _output(command, wanted, (limit - RECEIVE_OVERHEAD) // 4 * 3 - 6, timeout))

    def _signal(self, message: Message, shell: Shell) -> bytes:
        body = _body(message, "Signal")
        code = body.value(SHELL + "}Code").lower()  # clients write terminate and Terminate
        if code in (SIGNAL + "ctrl_c", SIGNAL + "ctrl_break"):
            self._shells.command(shell, body.attributes.get("CommandId", "")).interrupt()
        elif code == SIGNAL + "terminate":
            self._shells.forget(shell, self._shells.command(shell, body.attributes.get("CommandId", "")))
        else:
            raise Fault(2150858810, "w:InvalidParameter", "The WS-Management service cannot process the request because a parameter is not valid. "
                        f"There is no signal {code}.")
        return b"<rsp:SignalResponse/>"


def _output(command, wanted: list, most: int, timeout: float) -> bytes:
    try:
        received = command.receive(wanted, most, timeout)
    except Aborted:
        raise Fault(995, "w:InternalError", "The I/O operation has been aborted because of either a thread exit or an application request. ",
                    sender=False) from None
    if received is None:
        raise _timed_out()
    pieces, over = received
    id_ = escape(command.id)
    parts = [b"<rsp:ReceiveResponse>"]
    for name, data, last in pieces:
        if data:
            parts += [f'<rsp:Stream Name="{name}" CommandId="{id_}">'.encode(), pybase64.b64encode(data), b"</rsp:Stream>"]
        if last:
            parts.append(f'<rsp:Stream Name="{name}" CommandId="{id_}" End="true"></rsp:Stream>'.encode())
    if over:
        parts.append(f'<rsp:CommandState CommandId="{id_}" State="{STATE}Done"><rsp:ExitCode>{command.exit_code}</rsp:ExitCode></rsp:CommandState>'.encode())
    else:
        parts.append(f'<rsp:CommandState CommandId="{id_}" State="{STATE}Running"/>'.encode())
    parts.append(b"</rsp:ReceiveResponse>")
    return b"".join(parts)


def _body(message: Message, name: str) -> Element:
    if message.body is None or message.body.name != f"{SHELL}}}{name}":
        raise invalid_xml(f"The body is no {name}.")
    return message.body


def _decode(text: str) -> bytes:
    try:
        return pybase64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        text = "".join(text.split())
    try:
        return pybase64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid_xml(f"A stream is not base64: {error}.") from error


def _idle(text: str) -> float:
    """pywinrm writes a plain number of seconds where the schema wants a duration."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else seconds(text)


def _timed_out() -> Fault:
    return Fault(2150858793, "w:TimedOut", "The WS-Management service cannot complete the operation within the time specified in OperationTimeout. ",
                 sender=False)


def _describe(shell: Shell) -> bytes:
    return (
        f"<rsp:Shell><rsp:ShellId>{escape(shell.id)}</rsp:ShellId><rsp:Name>{escape(shell.name)}</rsp:Name><rsp:ResourceUri>{CMD}</rsp:ResourceUri>"
        f"<rsp:Owner>{escape(shell.owner)}</rsp:Owner><rsp:ClientIP>{escape(shell.client)}</rsp:ClientIP>"
        f"<rsp:IdleTimeOut>PT{shell.idle_timeout:.3f}S</rsp:IdleTimeOut><rsp:InputStreams>{escape(shell.input_streams)}</rsp:InputStreams>"
        f"<rsp:OutputStreams>{escape(shell.output_streams)}</rsp:OutputStreams><rsp:ShellRunTime>P0DT0H0M0S</rsp:ShellRunTime>"
        "<rsp:ShellInactivity>P0DT0H0M0S</rsp:ShellInactivity></rsp:Shell>"
    ).encode()


def identify(user: str) -> bytes:
    """Who asks without logging in learns no version."""
    system = "OS: 10.0.20348 SP: 0.0 Stack: 3.0" if user else "OS: 0.0.0 SP: 0.0 Stack: 3.0"
    return (
        f'<s:Envelope xml:lang="en-US" xmlns:s="{SOAP}"><s:Header/><s:Body><wsmid:IdentifyResponse xmlns:wsmid="{IDENTITY}"><wsmid:ProtocolVersion>{WSMAN}'
        f"</wsmid:ProtocolVersion><wsmid:ProductVendor>Microsoft Corporation</wsmid:ProductVendor><wsmid:ProductVersion>{system}</wsmid:ProductVersion>"
        "</wsmid:IdentifyResponse></s:Body></s:Envelope>"
    ).encode()
