# Copyright: WSU contributors. Apache License 2.0 (see LICENSE)
"""The action plugin in front of every module of the collection.

It runs the collection's Go binary on the control host, in place, whatever connection the host has, and never opens that
connection itself: the binary does, with what this plugin hands it through a pipe.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import selectors
import signal
import subprocess
import sys
import time

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()

PROGRESS_PREFIX = b"wsu-progress "
# A module's result is at most a preflight document and some kubelet log lines: far below this many bytes.
MAX_RESULT = 32 * 1024 * 1024
MAX_LINE = 64 * 1024
# The binary promises to end within 2 s of SIGTERM.
GRACE_SECONDS = 3
# Seconds between two progress lines of one phase, to a terminal and to a log.
EVERY_TERMINAL, EVERY_LOG = 1.0, 15.0
PR_SET_PDEATHSIG = 1

# Modules that reach the host, and so need to know how.
MODULES_WITH_CONNECTION = frozenset(("transfer", "wmcb", "node"))
# What the binary may see of the environment; a task's own `environment` is added.
ENVIRONMENT = (
    "HOME", "USER", "LOGNAME", "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "KUBECONFIG", "SSH_AUTH_SOCK", "XDG_CACHE_HOME",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "KRB5CCNAME", "KRB5_CONFIG",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}

try:
    _PRCTL = ctypes.CDLL(None, use_errno=True).prctl
except (OSError, AttributeError):  # not Linux; binary_path refuses that with a message
    _PRCTL = None


class WsuError(Exception):
    """What a task fails with: msg, and the stable reason code."""

    def __init__(self, reason, msg):
        super().__init__(msg)
        self.reason = reason


def binary_path(root, system=None, machine=None):
    """Return the path of the binary for this machine, or raise a WsuError that says what is missing."""
    system = system or platform.system()
    machine = machine or platform.machine()
    architecture = MACHINES.get(machine.lower())
    name = f"wsu.{system.lower()}-{architecture or machine}"
    path = os.path.join(root, "plugins", "bin", name)
    if os.access(path, os.X_OK):
        return path
    raise WsuError(
        "release_invalid",
        f"{path}: the collection has no modules for this control host ({system}, {machine}). "
        "Run `make build` in a checkout, or install a release that holds them; supported are Linux on x86-64 and arm64.",
    )


def as_json(value):
    """Serialise what YAML and Ansible may give as an argument besides JSON's own types."""
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if type(value).__name__ in ("AnsibleVaultEncryptedUnicode", "EncryptedString"):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be an argument")


def size_text(size):
    """Return a byte count for people, in powers of ten as disks and networks have them."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000.0
    return ""


def progress_line(host, event):
    """Return the line shown for one progress event: `winhost1 | transfer: kubelet.exe 43% 12.3 MB/s`."""
    text = str(event.get("text") or "")
    total, done, rate = event.get("total") or 0, event.get("done") or 0, event.get("rate") or 0
    if total:
        text += f" {100 * done // total}%"
    elif done:
        text += " " + size_text(done)
    if rate:
        text += f" {size_text(rate)}/s"
    prefix = f"{host} | " if host else ""
    return f"{prefix}{event.get('phase', '')}: {text.strip()}"


def parse_progress(line):
    """Return the event of a progress line, or None for any other line."""
    if not line.startswith(PROGRESS_PREFIX):
        return None
    try:
        event = json.loads(line[len(PROGRESS_PREFIX) :])
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("phase"), str) else None


def parse_result(stdout, exit_code, name, stderr_tail):
    """Return the one JSON object that a module prints; anything else is a failure that quotes what there was."""
    try:
        result = json.loads(stdout)
        if not isinstance(result, dict):
            raise ValueError("not an object")
    except ValueError:
        how = f"was ended by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"
        seen = stderr_tail or stdout[:500].decode(errors="replace") or "nothing was printed"
        raise WsuError("internal", f"module {name}: it {how} without a result: {seen}") from None
    if exit_code != 0:
        result["failed"] = True
    result.setdefault("changed", False)
    return result


class Throttle:
    """Let through the first event of a phase, the last, sentences, and of the rest one in a while."""

    def __init__(self, every, clock=time.monotonic):
        self._every, self._clock, self._last = every, clock, {}

    def shows(self, event):
        if not event.get("total"):
            return True
        key = (event["phase"], event.get("text"))
        now = self._clock()
        finished = event.get("done", 0) >= event["total"]
        if not finished and now - self._last.get(key, -self._every) < self._every:
            return False
        self._last[key] = now
        return True


class LineSplitter:
    """Split a stream into lines of a bounded length."""

    def __init__(self):
        self._rest = b""

    def feed(self, data):
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE:
            lines.append(self._rest[:MAX_LINE])
            self._rest = b""
        return lines

    def end(self):
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


class Run:
    """One run of the binary: arguments through a pipe, result from stdout, lines from stderr, nothing left behind."""

    def __init__(self, command, arguments, environment, on_line):
        self._command, self._arguments = command, arguments
        self._environment, self._on_line = environment, on_line
        self.stdout, self.tail = bytearray(), []

    def __call__(self):
        reader, writer = os.pipe()
        parent = os.getppid()
        try:
            child = subprocess.Popen(  # noqa: S603
                [*self._command, f"/dev/fd/{reader}"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self._environment,
                pass_fds=(reader,), start_new_session=True, preexec_fn=die_with_parent, bufsize=0,
            )  # fmt: skip
        except BaseException:
            os.close(writer)
            raise
        finally:
            os.close(reader)
        try:
            self._exchange(child, writer, parent)
            return child.wait()
        finally:
            end(child)

    def _exchange(self, child, writer, parent):
        os.set_blocking(writer, False)
        pending, splitter = memoryview(self._arguments), LineSplitter()
        with selectors.DefaultSelector() as selector:
            selector.register(writer, selectors.EVENT_WRITE)
            selector.register(child.stdout, selectors.EVENT_READ)
            selector.register(child.stderr, selectors.EVENT_READ)
            while selector.get_map():
                for key, _events in selector.select(1.0):
                    if key.fd == writer:
                        pending = feed(writer, pending)
                        if not pending:
                            selector.unregister(writer)
                            os.close(writer)
                        continue
                    data = os.read(key.fd, 65536)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is child.stdout:
                        self._take(data)
                    else:
                        self._lines(splitter.feed(data))
                if os.getppid() != parent:  # ansible-playbook itself was killed: nobody waits for this any more
                    raise WsuError("interrupted", "ansible-playbook ended")
        self._lines(splitter.end())

    def _take(self, data):
        self.stdout += data
        if len(self.stdout) > MAX_RESULT:
            raise WsuError("internal", f"the module's result is larger than {MAX_RESULT} bytes")

    def _lines(self, lines):
        for line in lines:
            if not self._on_line(line):
                self.tail = [*self.tail[-9:], line.decode(errors="replace")]


def feed(descriptor, pending):
    """Write what the pipe takes now; a reader that went away takes all (its exit says why)."""
    try:
        return pending[os.write(descriptor, pending) :]
    except BlockingIOError:
        return pending
    except BrokenPipeError:
        return pending[:0]


def as_bool(value):
    """What a template makes of a truth."""
    return value if isinstance(value, bool) else str(value or "").strip().lower() in ("true", "yes", "1", "on")


def die_with_parent():
    """Have the kernel end the child when this worker dies: Ansible ends its workers by signal, without any clean-up."""
    if _PRCTL is not None:
        _PRCTL(PR_SET_PDEATHSIG, signal.SIGTERM)


def end(child):
    """End the process group of a child that may still run: gently, then surely."""
    if child.poll() is None:
        signal_group(child, signal.SIGTERM)
        try:
            child.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            signal_group(child, signal.SIGKILL)
            child.wait()
    child.stdout.close()
    child.stderr.close()


def signal_group(child, number):
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        pass


class ActionModule(ActionBase):
    """Run a module of the collection."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False
    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        del tmp
        self._vars = task_vars or {}
        started = time.monotonic()
        try:
            result.update(self._execute(self._task.action.rsplit(".", 1)[-1]))
        except WsuError as problem:
            host = self._vars.get("inventory_hostname", "")
            result.update(failed=True, changed=False, reason=problem.reason, msg=f"{host}: {problem}")
        result["seconds"] = round(time.monotonic() - started, 2)
        return result

    def _execute(self, name):
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        run = Run(
            [binary_path(root), name],
            json.dumps(self._arguments(name), default=as_json).encode(),
            self._environment(),
            self._on_line(),
        )
        code = run()
        return parse_result(bytes(run.stdout), code, name, "\n".join(run.tail))

    def _arguments(self, name):
        arguments = dict(self._task.args)
        if name in MODULES_WITH_CONNECTION and "connection" not in arguments:
            connection = self._connection_arguments()
            if connection:
                arguments["connection"] = connection
        arguments.update(
            _ansible_check_mode=bool(self._task.check_mode),
            _ansible_diff=bool(self._task.diff),
            _ansible_no_log=bool(self._task.no_log),
            _ansible_verbosity=display.verbosity,
            _ansible_module_name=name,
            _ansible_inventory_hostname=str(self._vars.get("inventory_hostname", "")),
        )
        return arguments

    def _environment(self):
        environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        for extra in self._task.environment or []:
            if isinstance(extra, dict):
                environment.update({str(name): str(value) for name, value in extra.items()})
        return environment

    def _on_line(self):
        host = self._vars.get("inventory_hostname", "")
        throttle = Throttle(EVERY_TERMINAL if sys.__stdout__ and sys.__stdout__.isatty() else EVERY_LOG)
        hidden = bool(self._task.no_log)

        def show(line):
            event = parse_progress(line)
            if hidden:
                return event is not None
            if event is None:
                display.vvv(line.decode(errors="replace"), host=host)
                return False
            if throttle.shows(event):
                text = str(event.get("text") or "")
                display.display(text if "\n" in text else progress_line(host, event))
            return True

        return show

    # The connection: read, never opened.

    def _connection_arguments(self):
        kind = self._connection.transport
        if kind in ("ssh", "smart", "paramiko", "paramiko_ssh"):
            return self._ssh()
        if kind in ("winrm", "psrp"):
            return self._winrm()
        if kind == "local":
            return None
        raise WsuError(
            "argument_invalid", f"ansible_connection {kind} is not supported for Windows hosts. Use ssh or winrm."
        )

    def _common(self, kind):
        common = {
            "inventory_hostname": str(self._vars.get("inventory_hostname", "")),
            "kind": kind,
            "host": self._option("host", "remote_addr") or self._vars.get("inventory_hostname"),
            "port": int(self._option("port") or 0),
            "user": self._option("remote_user") or self._play_context.remote_user,
            "password": self._option("password", "remote_password") or self._play_context.password,
            "connect_timeout_seconds": int(self._option("timeout", "connection_timeout") or 0),
        }
        return {name: value for name, value in common.items() if value}

    def _ssh(self):
        connection = self._common("ssh")
        # In OpenSSH's order: what is said first wins.
        arguments = " ".join(filter(None, (self._option(name) for name in ("ssh_args", "ssh_common_args", "ssh_extra_args"))))
        ssh = {
            "private_key_file": self._path(self._option("private_key_file") or self._play_context.private_key_file),
            "private_key_passphrase": self._option("private_key_passphrase")
            or self._variable("ansible_ssh_private_key_passphrase")
            or self._variable("ansible_private_key_passphrase"),
            "common_args": arguments,
            "host_key_policy": self._variable("wsu_ssh_host_key_policy"),
            "known_hosts_file": self._path(self._variable("wsu_ssh_known_hosts_file")),
            "host_key_fingerprint": self._variable("wsu_ssh_host_key_fingerprint"),
        }
        connection["ssh"] = {name: value for name, value in ssh.items() if value}
        return connection

    def _winrm(self):
        connection = self._common("winrm")
        if self._connection.transport == "psrp":
            options = self._psrp_options()
        else:
            options = {
                "scheme": self._option("scheme"),
                "path": self._option("path"),
                "transport": self._option("transport"),
                "kinit_mode": self._option("kerberos_mode"),
                "read_timeout_sec": self._number("ansible_winrm_read_timeout_sec"),
                "operation_timeout_sec": self._number("ansible_winrm_operation_timeout_sec"),
                "cert_pem": self._path(self._variable("ansible_winrm_cert_pem")),
                "cert_key_pem": self._path(self._variable("ansible_winrm_cert_key_pem")),
                "ca_trust_path": self._path(self._variable("ansible_winrm_ca_trust_path")),
                "kerberos_delegation": as_bool(self._variable("ansible_winrm_kerberos_delegation")),
            }
            for name in ("server_cert_validation", "message_encryption", "service", "kerberos_hostname_override"):
                options[name] = self._variable("ansible_winrm_" + name)
        options["certificate_fingerprint"] = self._variable("wsu_winrm_certificate_fingerprint")
        options["insecure_expose_credentials"] = as_bool(self._variable("wsu_winrm_insecure_expose_credentials"))
        connection["winrm"] = {name: value for name, value in options.items() if value}
        return connection

    def _psrp_options(self):
        """What psrp calls its options; it speaks to the same service."""
        auth, path = self._option("auth"), self._option("path")
        return {
            "scheme": self._option("protocol"),
            "path": path and "/" + path.lstrip("/"),  # psrp's own default is without the slash
            "transport": [auth] if auth else None,
            "message_encryption": self._option("message_encryption"),
            "server_cert_validation": self._option("cert_validation"),
            "ca_trust_path": self._path(self._option("ca_cert")),
            "cert_pem": self._path(self._option("certificate_pem")),
            "cert_key_pem": self._path(self._option("certificate_key_pem")),
            "service": self._option("negotiate_service"),
            "kerberos_hostname_override": self._option("negotiate_hostname_override"),
            "kerberos_delegation": bool(self._option("negotiate_delegate")),
        }

    def _number(self, name):
        value = self._variable(name)
        try:
            return int(value) if value is not None else None
        except (TypeError, ValueError):
            raise WsuError("argument_invalid", f"{name} is {value!r}, not a number of seconds.") from None

    def _option(self, *names):
        for name in names:
            try:
                value = self._connection.get_option(name)
            except (KeyError, AttributeError):
                continue
            if value is not None:
                return value
        return None

    def _variable(self, name):
        value = self._vars.get(name)
        if value is None:
            return None
        return self._templar.template(value)

    @staticmethod
    def _path(value):
        return os.path.abspath(os.path.expanduser(value)) if value else None
