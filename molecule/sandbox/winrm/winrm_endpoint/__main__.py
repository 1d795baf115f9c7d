"""The command line of the endpoint."""

import argparse
import logging
import os
import platform
import signal
import ssl
import sys
import tempfile
import threading
from dataclasses import replace

from . import certificates
from .authentication import Users, bindings_of
from .limits import Limits
from .server import Endpoint, Listener
from .service import Service
from .shell import Runner

EPILOG = """\
For development, with commands running in /bin/sh:

  echo ':Administrator:secret' >users
  .venv-sandbox/bin/python -m winrm_endpoint --address 127.0.0.1 --http 15985 --https 15986 --users users --tls-dir tls --run /bin/sh -c

tls then holds winrm-ca.crt (for clients to trust) and winrm-client.crt and .key (to log in with). The runner gets the command line as its
last argument, as the client wrote it, and in its environment WINHOST_DIRECTORY (the shell's working directory, or empty), WINHOST_ENVIRONMENT
(the shell's variables, a JSON object) and WINHOST_DIRECT (yes: WINRS_SKIP_CMD_SHELL is true). Its process group is killed when the client
ends the command.
"""


def arguments():
    parser = argparse.ArgumentParser(prog="winrm_endpoint", description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", required=True, help="IP address to listen on")
    parser.add_argument("--http", type=int, default=0, metavar="PORT", help="port for HTTP (messages have to be encrypted), as 5985")
    parser.add_argument("--https", type=int, default=0, metavar="PORT", help="port for HTTPS, as 5986")
    parser.add_argument("--users", required=True, metavar="FILE", help="lines DOMAIN:USER:PASSWORD, DOMAIN may be empty; not readable by others")
    parser.add_argument("--tls-dir", metavar="DIR", help="folder with winrm-server.crt and .key, and winrm-ca.crt for clients' certificates; filled if empty")
    parser.add_argument("--client-ca", metavar="FILE", help="authority of the clients' certificates, instead of winrm-ca.crt")
    parser.add_argument("--keytab", metavar="FILE", help="keys of HTTP/NAME for Kerberos")
    parser.add_argument("--latency-file", metavar="FILE", default="", help="milliseconds that each message is delayed, read anew for each; absent: 0")
    parser.add_argument("--results", metavar="DIR", default="", help="folder in which the runner leaves exit codes of 32 bits (WINHOST_RESULT_FILE)")
    parser.add_argument("--results-as", metavar="PREFIX", default="", help="how the runner names that folder, up to the last separator")
    parser.add_argument("--lone-kill", action="store_true", help="kill the runner's process alone, which takes its children with it")
    parser.add_argument("--least-idle", type=float, default=Limits.least_idle_timeout, metavar="SECONDS", help="shortest IdleTimeout that has an effect")
    parser.add_argument("--detach", action="store_true", help="return once the ports are open, and go on in the background")
    parser.add_argument("--verbose", action="store_true", help="log each request")
    parser.add_argument("--run", nargs=argparse.REMAINDER, required=True, metavar="PROGRAM", help="what runs a command line; the rest of the arguments")
    options = parser.parse_args()
    if not options.run:
        parser.error("--run: name the program that runs command lines")
    if not options.http and not options.https:
        parser.error("give --http or --https, or both")
    return options


def tls_context(options) -> tuple:
    """The HTTPS listener's context and its certificate's channel bindings."""
    folder = options.tls_dir or tempfile.mkdtemp(prefix="winrm-tls-")
    if not os.path.exists(os.path.join(folder, "winrm-server.crt")):
        certificates.make(folder, options.address, "Administrator")
        print(f"winrm_endpoint: certificates are in {folder}", file=sys.stderr)
    certificate = os.path.join(folder, "winrm-server.crt")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, os.path.join(folder, "winrm-server.key"))
    context.load_verify_locations(options.client_ca or os.path.join(folder, "winrm-ca.crt"))
    context.verify_mode = ssl.CERT_OPTIONAL
    with open(certificate, encoding="ascii") as file:
        first = file.read().split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n"
    return context, bindings_of(ssl.PEM_cert_to_DER_cert(first.strip()))


def main() -> int:
    options = arguments()
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.DEBUG if options.verbose else logging.INFO)
    logging.getLogger("spnego").setLevel(logging.WARNING)  # it logs tokens
    os.environ["NTLM_USER_FILE"] = os.path.abspath(options.users)
    os.environ["LM_COMPAT_LEVEL"] = "5"  # NTLMv2 alone, as a server since 2008 takes it
    if options.keytab:
        os.environ["KRB5_KTNAME"] = "FILE:" + os.path.abspath(options.keytab)
    limits = replace(Limits(), least_idle_timeout=options.least_idle)
    users = Users(options.users)
    if options.results:
        os.makedirs(options.results, mode=0o700, exist_ok=True)
    runner = Runner(options.run, options.results, options.results_as or options.results + "/", options.lone_kill)
    listeners, wanted = [], [(options.http, None, None)] if options.http else []
    if options.https:
        wanted.append((options.https, *tls_context(options)))
    endpoint = Endpoint(None, users, limits, options.latency_file)
    for port, context, bindings in wanted:
        listeners.append(Listener((options.address, port), endpoint, context, bindings))
    if options.detach and os.fork() > 0:
        os._exit(0)
    serve(endpoint, listeners, runner, limits, options.address)
    return 0


def serve(endpoint: Endpoint, listeners: list, runner: Runner, limits: Limits, address: str) -> None:
    """Until SIGTERM or SIGINT; then all commands end."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    endpoint.service = Service(runner, limits, address)
    for listener in listeners:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
    logging.getLogger("winrm").info("%s listens on %s", platform.node(), ", ".join(f"{one.server_address[0]}:{one.server_address[1]}" for one in listeners))
    stop.wait()
    for listener in listeners:
        listener.server_close()
    endpoint.service.close()


if __name__ == "__main__":
    sys.exit(main())
