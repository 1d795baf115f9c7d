"""SOAP messages of WS-Management: a hardened parser for requests, faults, and the text of answers."""

import re
import uuid
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

SOAP = "http://www.w3.org/2003/05/soap-envelope"
ADDRESSING = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
TRANSFER = "http://schemas.xmlsoap.org/ws/2004/09/transfer"
WSMAN = "http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"
MICROSOFT = "http://schemas.microsoft.com/wbem/wsman/1/wsman.xsd"
SHELL = "http://schemas.microsoft.com/wbem/wsman/1/windows/shell"
IDENTITY = "http://schemas.dmtf.org/wbem/wsman/identity/1/wsmanidentity.xsd"
FAULT = "http://schemas.microsoft.com/wbem/wsman/1/wsmanfault"
FAULT_DETAIL = "http://schemas.dmtf.org/wbem/wsman/1/wsman/faultDetail/"
ANONYMOUS = ADDRESSING + "/role/anonymous"

MAX_DEPTH = 32
MAX_ELEMENTS = 10_000


class Fault(Exception):
    """A SOAP fault. code is WSManFault's, subcode its qualified name, text what Windows says."""

    def __init__(self, code: int, subcode: str, text: str, *, sender: bool = True, detail: str = ""):
        super().__init__(text)
        self.code, self.subcode, self.text, self.sender, self.detail = code, subcode, text, sender, detail


def invalid_xml(why: str) -> Fault:
    text = "The SOAP XML in the message does not match the corresponding XML schema definition. Change the XML and retry. "
    return Fault(2150858817, "w:SchemaValidationError", text + why)


@dataclass(slots=True)
class Element:
    """An element; its name and its attributes' names are `namespace}local`, or `local` alone."""

    name: str
    attributes: dict
    text: str = ""
    children: list = field(default_factory=list)

    def find(self, name: str):
        return next((child for child in self.children if child.name == name), None)

    def all(self, name: str) -> list:
        return [child for child in self.children if child.name == name]

    def value(self, name: str, default: str = "") -> str:
        child = self.find(name)
        return default if child is None else child.text.strip()


class _Builder:
    def __init__(self):
        self.root, self.stack, self.count = None, [], 0

    def start(self, name, attributes):
        self.count += 1
        if self.count > MAX_ELEMENTS or len(self.stack) >= MAX_DEPTH:
            raise invalid_xml("It has too many elements.")
        element = Element(name, attributes)
        if self.stack:
            self.stack[-1].children.append(element)
        else:
            self.root = element
        self.stack.append(element)

    def end(self, _name):
        self.stack.pop()

    def text(self, data):
        top = self.stack[-1]
        top.text = top.text + data if top.text else data

    @staticmethod
    def refuse(*_):
        raise invalid_xml("Document type declarations and processing instructions are not allowed.")


def parse(document: bytes) -> Element:
    """The document's root; a Fault if it is not well-formed or holds a DTD, so that no entity is ever declared."""
    builder = _Builder()
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.buffer_size = max(8192, min(len(document), 1 << 20))  # a Stream's base64 comes in one piece
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = builder.start, builder.end, builder.text
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = parser.ProcessingInstructionHandler = builder.refuse
    try:
        parser.Parse(document, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise invalid_xml(f"It is not well-formed: {error}.") from error
    return builder.root


_DURATION = re.compile(r"P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?")


def seconds(duration: str) -> float:
    """An xs:duration of days at most."""
    match = _DURATION.fullmatch(duration.strip())
    if not match or not any(match.groups()):
        raise invalid_xml("A duration is wrong.")
    days, hours, minutes, rest = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


_UNDERSTOOD = {
    ADDRESSING + "}" + name for name in ("To", "From", "ReplyTo", "FaultTo", "Action", "MessageID", "RelatesTo")
} | {
    WSMAN + "}" + name for name in ("MaxEnvelopeSize", "OperationTimeout", "ResourceURI", "SelectorSet", "OptionSet", "Locale")
} | {
    MICROSOFT + "}" + name for name in ("DataLocale", "SessionId", "OperationID", "SequenceId", "ActivityId", "CompressionType")
}


class Message:
    """A request: what its header says and its body's first element (None if there is none)."""

    def __init__(self, document: bytes):
        root = parse(document)
        if root is None or root.name != SOAP + "}Envelope":
            raise invalid_xml("It is no SOAP 1.2 envelope.")
        header, body = root.find(SOAP + "}Header"), root.find(SOAP + "}Body")
        if body is None:
            raise invalid_xml("It has no body.")
        self.header = header or Element("", {})
        self.body = body.children[0] if body.children else None
        self.action = self.header.value(ADDRESSING + "}Action")
        self.id = self.header.value(ADDRESSING + "}MessageID")
        self.resource = self.header.value(WSMAN + "}ResourceURI")

    def check_understood(self) -> None:
        for element in self.header.children:
            must = element.attributes.get(SOAP + "}mustUnderstand", "").lower() in ("1", "true")
            if must and element.name not in _UNDERSTOOD:
                raise Fault(2150858768, "", f"The WS-Management service cannot process a SOAP header in the request that is marked as mustUnderstand by "
                            f"the client. This could be caused by the use of a version of the protocol which is not supported, or may be an "
                            f"incompatibility between the client and server implementations. It is {element.name}.")

    def named(self, container: str, item: str) -> dict:
        """What an OptionSet or SelectorSet holds."""
        element = self.header.find(WSMAN + "}" + container)
        if element is None:
            return {}
        return {one.attributes.get("Name", ""): one.text.strip() for one in element.all(WSMAN + "}" + item)}

    def shell_id(self) -> str:
        return self.named("SelectorSet", "Selector").get("ShellId", "").upper()

    def option(self, name: str, default: bool = False) -> bool:
        value = self.named("OptionSet", "Option").get(name)
        return default if value is None else value.upper() in ("TRUE", "1")

    def timeout(self, most: float) -> float:
        text = self.header.value(WSMAN + "}OperationTimeout")
        return min(seconds(text), most) if text else most

    def max_envelope(self, least: int, most: int) -> int:
        text = self.header.value(WSMAN + "}MaxEnvelopeSize")
        if not text:
            return most
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            raise invalid_xml("MaxEnvelopeSize is no number.")
        if int(text) < least:
            raise Fault(2150858823, "w:EncodingLimit", "The WS-Management service cannot process the request. The MaxEnvelopeSize value in the request "
                        f"is too small. Change it to {least} or more.", detail=FAULT_DETAIL + "MinimumEnvelopeLimit")
        return min(int(text), most)


_NAMESPACES = (
    f'xml:lang="en-US" xmlns:s="{SOAP}" xmlns:a="{ADDRESSING}" xmlns:x="{TRANSFER}" xmlns:w="{WSMAN}" xmlns:rsp="{SHELL}" xmlns:p="{MICROSOFT}"'
)


def envelope(action: str, relates_to: str, body: bytes) -> bytes:
    """An answer; body is XML with the prefixes s, a, x, w, rsp and p."""
    head = (
        f"<s:Envelope {_NAMESPACES}><s:Header><a:Action>{escape(action)}</a:Action><a:MessageID>uuid:{str(uuid.uuid4()).upper()}</a:MessageID>"
        f"<a:To>{ANONYMOUS}</a:To><a:RelatesTo>{escape(relates_to)}</a:RelatesTo></s:Header><s:Body>"
    )
    return b"".join((head.encode(), body, b"</s:Body></s:Envelope>"))


def fault_envelope(fault: Fault, relates_to: str, machine: str) -> bytes:
    side = "Sender" if fault.sender else "Receiver"
    value = "s:MustUnderstand" if fault.code == 2150858768 else f"s:{side}"
    subcode = f"<s:Subcode><s:Value>{fault.subcode}</s:Value></s:Subcode>" if fault.subcode else ""
    detail = f"<w:FaultDetail>{escape(fault.detail)}</w:FaultDetail>" if fault.detail else ""
    text = escape(fault.text)
    body = (
        f'<s:Fault><s:Code><s:Value>{value}</s:Value>{subcode}</s:Code><s:Reason><s:Text xml:lang="en-US">{text}</s:Text></s:Reason><s:Detail>{detail}'
        f'<f:WSManFault xmlns:f="{FAULT}" Code="{fault.code}" Machine={quoteattr(machine)}><f:Message>{text}</f:Message></f:WSManFault>'
        "</s:Detail></s:Fault>"
    )
    space = ADDRESSING if fault.subcode.startswith("a:") else WSMAN[: -len(".xsd")]
    return envelope(space + "/fault", relates_to, body.encode())
