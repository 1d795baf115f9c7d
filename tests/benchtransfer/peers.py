"""How others bring files over WinRM, with pywinrm. Arguments as JSON on the standard input; prints the seconds that it took."""

import base64
import json
import os
import sys
import time

from winrm.protocol import Protocol

# What Ansible's winrm connection reads of a file for one message (put_file, buffer_size), and what winrmcp puts into one command.
ANSIBLE_PIECE = 250000
WINRMCP_PIECE = 5900


def connect(host, scheme, password, ca):
    port = {"https": 5986, "http": 5985}[scheme]
    return Protocol(
        f"{scheme}://{host}:{port}/wsman",
        transport="ntlm",
        username="Administrator",
        password=password,
        ca_trust_path=ca or "legacy_requests",
        server_cert_validation="validate",
    )


def ansible_way(protocol, shell, path, target):
    """Lines of base64 into a program that decodes them, each line one more time in base64 as the protocol wants it."""
    command = protocol.run_command(shell, r"C:\bench\decode.exe", [target], console_mode_stdin=False)
    with open(path, "rb") as content:
        size = os.path.getsize(path)
        while piece := content.read(ANSIBLE_PIECE):
            protocol.send_command_input(shell, command, base64.b64encode(piece) + b"\r\n", end=content.tell() == size)
    out, said, code = protocol.get_command_output(shell, command)
    protocol.cleanup_command(shell, command)
    if code:
        raise SystemExit(f"decode.exe: {code} {out} {said}")


def winrmcp_way(protocol, shell, size, target):
    """A command for every piece, which appends it to a file."""
    for begin in range(0, size, WINRMCP_PIECE):
        piece = base64.b64encode(os.urandom(min(WINRMCP_PIECE, size - begin))).decode()
        command = protocol.run_command(shell, f"echo {piece} >> {target}")
        _, said, code = protocol.get_command_output(shell, command)
        protocol.cleanup_command(shell, command)
        if code:
            raise SystemExit(f"echo: {code} {said}")


def main():
    arguments = json.load(sys.stdin)
    protocol = connect(arguments["host"], arguments["scheme"], arguments["password"], arguments["ca"])
    begin = time.monotonic()
    shell = protocol.open_shell()
    for path, target in arguments["paths"].items():
        if arguments["way"] == "ansible":
            ansible_way(protocol, shell, path, target)
        else:
            winrmcp_way(protocol, shell, int(path), target)
    protocol.close_shell(shell)
    print(time.monotonic() - begin)


main()
