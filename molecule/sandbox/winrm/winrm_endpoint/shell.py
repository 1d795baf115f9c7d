"""The shells of the endpoint, within the quotas of its user, and their end when nobody uses them."""

import json
import os
import threading
import time
import uuid
from dataclasses import dataclass, field

from .command import Command, Start
from .limits import Limits
from .soap import Fault


def _quota(code: int, text: str) -> Fault:
    return Fault(code, "w:QuotaLimit", "The WS-Management service cannot process the request. " + text, sender=False)


@dataclass
class Runner:
    """How a command line is run: argv with the line appended. results is a folder for exit codes of 32 bits. takes_children says that
    the runner's process takes with it what it started; otherwise its process group is killed."""

    argv: list
    results: str = ""
    windows_results: str = ""  # the same folder, as the programs see it
    takes_children: bool = False

    def start(self, shell: "Shell", command_id: str, line: str, skip_cmd: bool, console_stdin: bool) -> Start:
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}  # and nothing of the endpoint's own
        environment.update(
            WINHOST_REMOTE="winrm",
            WINHOST_DIRECT="yes" if skip_cmd else "",
            WINHOST_DIRECTORY=shell.directory,
            WINHOST_ENVIRONMENT=json.dumps(shell.environment),
        )
        if self.results:
            environment["WINHOST_RESULT"] = os.path.join(self.results, command_id)
            environment["WINHOST_RESULT_FILE"] = self.windows_results + command_id
        return Start([*self.argv, line], environment, console_stdin, self.takes_children)


@dataclass
class Shell:
    id: str
    owner: str
    client: str
    idle_timeout: float
    input_streams: str = "stdin"
    output_streams: str = "stdout stderr"
    directory: str = ""
    environment: dict = field(default_factory=dict)
    name: str = ""
    commands: dict = field(default_factory=dict)
    created: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)
    requests: int = 0  # being answered now


class Shells:
    """All shells. A shell that is not used for its idle timeout ends with its processes."""

    def __init__(self, runner: Runner, limits: Limits):
        self._runner, self._limits = runner, limits
        self._lock = threading.Lock()
        self._shells: dict = {}
        self._operations = 0
        self._closed = threading.Event()
        threading.Thread(target=self._end_idle_ones, daemon=True).start()

    def begin(self) -> None:
        """Counts an operation of the user; end() is to follow if this returns."""
        with self._lock:
            # A command counts until its client has signalled the end of it.
            if self._operations + sum(len(shell.commands) for shell in self._shells.values()) >= self._limits.operations:
                raise _quota(2150859174, f"This user is allowed a maximum number of {self._limits.operations} concurrent operations, which has been "
                             "exceeded. Close existing operations for this user, or raise the quota for this user.")
            self._operations += 1

    def end(self) -> None:
        with self._lock:
            self._operations -= 1

    def create(self, shell: Shell) -> None:
        with self._lock:
            if shell.id in self._shells:
                raise Fault(2150858803, "w:AlreadyExists", "The WS-Management service cannot process the request. A shell with this ShellId exists already.")
            if sum(1 for other in self._shells.values() if other.owner == shell.owner) >= self._limits.shells:
                raise _quota(2150859173, f"This user is allowed a maximum number of {self._limits.shells} concurrent shells, which has been exceeded. "
                             "Close existing shells or raise the quota for this user.")
            self._shells[shell.id] = shell

    def use(self, shell_id: str) -> "_Use":
        with self._lock:
            shell = self._shells.get(shell_id)
            if shell is None:
                raise Fault(2150858843, "w:InvalidSelectors", f"The request for the Windows Remote Shell with ShellId {shell_id} failed because the shell "
                            "was not found on the server. Possible causes are: the specified ShellId is incorrect or the shell no longer exists on the "
                            "server. Provide the correct ShellId or create a new shell and retry the operation.")
            return _Use(shell, self._lock)

    def run(self, shell: Shell, command_id: str, line: str, skip_cmd: bool, console_stdin: bool) -> Command:
        with self._lock:
            if command_id in shell.commands:
                raise Fault(2150858803, "w:AlreadyExists", "The WS-Management service cannot process the request. A command with this CommandId "
                            "exists already.")
            if sum(1 for command in shell.commands.values() if not command.ended) >= self._limits.processes:
                raise _quota(2150859241, f"The maximum number of {self._limits.processes} concurrent commands per shell has been exceeded. "
                             "Retry your request later or raise the Maximum Commands per Shell quota.")
            start = self._runner.start(shell, command_id, line, skip_cmd, console_stdin)
            try:
                command = Command(command_id, line, start)
            except (OSError, ValueError) as error:
                raise Fault(2147942405 if isinstance(error, PermissionError) else 2147942402, "w:InternalError", f"{error}", sender=False) from error
            shell.commands[command_id] = command
            return command

    def command(self, shell: Shell, command_id: str) -> Command:
        with self._lock:
            command = shell.commands.get(command_id.upper())
        if command is None:
            raise Fault(2150858843, "w:InvalidSelectors", "The WS-Management service cannot process the request because the request contained invalid "
                        f"selectors for the resource. There is no command with the CommandId {command_id}.")
        return command

    def forget(self, shell: Shell, command: Command) -> None:
        with self._lock:
            shell.commands.pop(command.id, None)
        command.abort()

    def delete(self, shell: Shell) -> None:
        with self._lock:
            self._shells.pop(shell.id, None)
            commands, shell.commands = list(shell.commands.values()), {}
        for command in commands:
            command.abort()

    def close(self) -> None:
        """Ends all shells."""
        self._closed.set()
        with self._lock:
            shells = list(self._shells.values())
        for shell in shells:
            self.delete(shell)

    def _end_idle_ones(self) -> None:
        while not self._closed.wait(0.5):
            now = time.monotonic()
            with self._lock:
                idle = [shell for shell in self._shells.values() if not shell.requests and now - shell.used > shell.idle_timeout]
            for shell in idle:
                self.delete(shell)


class _Use:
    """The shell while one request uses it: it is not idle then."""

    def __init__(self, shell: Shell, lock: threading.Lock):
        self._shell, self._lock = shell, lock
        shell.requests += 1

    def __enter__(self) -> Shell:
        return self._shell

    def __exit__(self, *_):
        with self._lock:
            self._shell.requests -= 1
            self._shell.used = time.monotonic()


def new_id() -> str:
    return str(uuid.uuid4()).upper()
