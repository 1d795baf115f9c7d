"""One command of a shell: its process, what is sent to it and what it says."""

import contextlib
import fcntl
import os
import signal
import subprocess
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from .receives import Receives

PIPE_BYTES = 1 << 20
READ_BYTES = 1 << 18
HELD_BYTES = 4 << 20  # what is kept of output that nobody fetches; then the process waits
STREAMS = ("stdout", "stderr")
CONTROL_C_EXIT = 0xC000013A
# How long a process that ended is waited for to let go of its output, which a child of it may hold for ever.
LAST_OUTPUT_SECONDS = 1.0


@dataclass
class Start:
    """What is started: argv is the runner's, the rest reaches it in its environment."""

    argv: list
    environment: dict
    console_stdin: bool = False
    takes_children: bool = False


@dataclass
class _Output:
    chunks: deque = field(default_factory=deque)
    size: int = 0
    ended: bool = False  # nothing more comes
    told: bool = False  # the client knows

    def take(self, most: int) -> bytes:
        taken, rest = [], most
        while self.chunks and rest > 0:
            chunk = self.chunks.popleft()
            if len(chunk) > rest:
                self.chunks.appendleft(chunk[rest:])
                chunk = chunk[:rest]
            taken.append(chunk)
            rest -= len(chunk)
        self.size -= most - rest
        return b"".join(taken)


class Input:
    """One Send: its pieces are written in order; written is set when they are, or when they cannot be."""

    def __init__(self, data: bytes, end: bool):
        self.data, self.end, self.written, self.lost = data, end, threading.Event(), False


class Aborted(Exception):
    """The command was ended while its output was waited for."""


class Command:
    """A running command. Its methods may be called from any thread."""

    def __init__(self, id_: str, line: str, start: Start):
        self._forced_code = None  # the exit code of a process that was killed
        self.id, self.line, self.exit_code, self.receives = id_, line, None, Receives()
        self.result_file = start.environment.get("WINHOST_RESULT")
        self._console_stdin, self._takes_children = start.console_stdin, start.takes_children
        self._outputs = {name: _Output() for name in STREAMS}
        self._change = threading.Condition()
        self._aborted = False
        self._inputs, self._input_arrived = deque(), threading.Condition()
        self._process = subprocess.Popen(
            start.argv, env=start.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # only root may have large pipes
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        pumps = [threading.Thread(target=self._pump, args=(name, getattr(self._process, name)), daemon=True) for name in STREAMS]
        for thread in (*pumps, threading.Thread(target=self._feed, daemon=True), threading.Thread(target=self._await_exit, args=(pumps,), daemon=True)):
            thread.start()

    @property
    def ended(self) -> bool:
        return self.exit_code is not None

    def send(self, data: bytes, end: bool, within: float) -> Input:
        """Queues data behind what was sent before, and waits until the process' pipe has it, or for `within` seconds."""
        item = Input(data, end)
        with self._input_arrived:
            if self._process.stdin.closed or self.ended:
                item.lost = True
                item.written.set()
                return item
            self._inputs.append(item)
            self._input_arrived.notify()
        item.written.wait(within)
        return item

    def receive(self, wanted: list, most: int, within: float):
        """Waits up to `within` seconds for output of the wanted streams or the end, and returns (pieces, over), where pieces are
        (stream, data, last) and over says that the command has ended and all was told; None if nothing came in time."""
        deadline = time.monotonic() + within
        with self._change:
            while not self._news(wanted):
                rest = deadline - time.monotonic()
                if rest <= 0:
                    return None
                self._change.wait(rest)
            if self._aborted:
                raise Aborted
            pieces = []
            for name in wanted:
                output = self._outputs[name]
                data = output.take(most)
                most -= len(data)
                last = output.ended and not output.chunks and not output.told
                output.told = output.told or last
                if data or last:
                    pieces.append((name, data, last))
            self._change.notify_all()  # the pumps: there is room again
            return pieces, self.ended and not any(self._outputs[name].chunks for name in wanted)

    def interrupt(self) -> None:
        """Ends the process as Ctrl+C does, and leaves what it said to be fetched."""
        self._kill(CONTROL_C_EXIT)

    def abort(self) -> None:
        """Ends the process and whoever waits for its output."""
        self._kill(1)
        with self._change:
            self._aborted = True
            self._change.notify_all()

    def _kill(self, code: int) -> None:
        with self._change:
            if not self.ended:
                self._forced_code = code
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._takes_children:
                self._process.kill()
            elif not self.ended:
                os.killpg(self._process.pid, signal.SIGKILL)
        with self._input_arrived:
            self._input_arrived.notify()

    def _news(self, wanted: list) -> bool:
        return self._aborted or self.ended or any(self._outputs[name].chunks for name in wanted)

    def _pump(self, name: str, pipe) -> None:
        output, descriptor = self._outputs[name], pipe.fileno()
        while True:
            try:
                data = os.read(descriptor, READ_BYTES)
            except OSError:
                data = b""
            with self._change:
                if not data or self._aborted:
                    output.ended = True
                    self._change.notify_all()
                    break
                output.chunks.append(data)
                output.size += len(data)
                self._change.notify_all()
                while output.size > HELD_BYTES and not self._aborted:
                    self._change.wait()
        pipe.close()

    def _feed(self) -> None:
        stdin = self._process.stdin
        while True:
            with self._input_arrived:
                while not self._inputs and not self.ended:
                    self._input_arrived.wait()
                if not self._inputs:
                    stdin.close()
                    return
                item = self._inputs.popleft()
            end = item.end
            try:
                end = self._write(stdin.fileno(), item.data) or end
            except OSError:
                item.lost = end = True
            if end:
                with self._input_arrived:
                    stdin.close()
                    for rest in self._inputs:
                        rest.lost = True
                        rest.written.set()
                    self._inputs.clear()
            item.written.set()
            if end:
                return

    def _write(self, descriptor: int, data: bytes) -> bool:
        """Writes it all; true if a console would end the input there."""
        end = False
        if self._console_stdin and (stop := min((at for at in (data.find(b"\x03"), data.find(b"\x1a")) if at >= 0), default=-1)) >= 0:
            # A console takes Ctrl+C and Ctrl+Z for itself: binary data does not pass.
            if data[stop] == 3:
                self.interrupt()
            data, end = data[:stop], True
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view):]
        return end

    def _await_exit(self, pumps: list) -> None:
        status = self._process.wait()
        deadline = time.monotonic() + LAST_OUTPUT_SECONDS
        for pump in pumps:
            pump.join(max(0.0, deadline - time.monotonic()))
            while pump.is_alive() and self._held_back():
                pump.join(0.1)  # it waits for the client to fetch, not for the pipe's end
        with self._change:
            self.exit_code = self._read_code(status)
            self._change.notify_all()
        with self._input_arrived:
            self._input_arrived.notify()

    def _held_back(self) -> bool:
        with self._change:
            return not self._aborted and any(output.size > HELD_BYTES for output in self._outputs.values())

    def _read_code(self, status: int) -> int:
        """The exit code as 32 bits, which the runner leaves in a file: Linux keeps eight of them."""
        if self._forced_code is not None:
            return self._forced_code
        with contextlib.suppress(OSError, ValueError, TypeError):
            with open(self.result_file, encoding="ascii") as file:
                status = int(file.read(16))
        if self.result_file:
            with contextlib.suppress(OSError):
                os.unlink(self.result_file)
        return status & 0xFFFFFFFF
