"""Runs one command in a WinRM shell of its own. stdin: JSON with command, and optionally directory, variables, skip_cmd, and path (the shell is
deleted once that file is there, with the command still running). stdout: JSON with Out, Err, Code."""

import json
import os
import sys
import time

from winrm.exceptions import WinRMOperationTimeoutError
from winrm.protocol import Protocol


def main():
    request = json.load(sys.stdin)
    with open(os.environ["WINRM_TARGET"], encoding="utf-8") as file:
        target = json.load(file)
    protocol = Protocol(
        f"https://{target['address']}:{target['https']}/wsman", transport="ntlm", username=target["user"], password=target["password"],
        ca_trust_path=target["ca"],
    )
    shell = protocol.open_shell(working_directory=request.get("directory"), env_vars=request.get("variables"))
    command = protocol.run_command(shell, request["command"], console_mode_stdin=False, skip_cmd_shell=request.get("skip_cmd", False))
    out, err, code, done = b"", b"", 0, False
    if "path" in request:
        while not os.path.exists(request["path"]):
            time.sleep(0.02)
        done = True
    while not done:
        try:
            one, two, code, done = protocol.get_command_output_raw(shell, command)
        except WinRMOperationTimeoutError:
            continue
        out, err = out + one, err + two
    protocol.close_shell(shell)
    json.dump({"Out": out.decode("utf-8", "replace"), "Err": err.decode("utf-8", "replace"), "Code": code}, sys.stdout)


main()
