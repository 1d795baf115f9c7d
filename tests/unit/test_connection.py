"""What the action plugin makes of a host's connection variables, through Ansible's own connection plugins, which are asked and never connect."""

from __future__ import annotations

import importlib.util
import os
import pathlib

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.loader import connection_loader
from ansible.template import Templar

try:  # what an inventory says may be a template; since 2.19 that has to be said
    from ansible.template import trust_as_template
except ImportError:
    trust_as_template = str

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("wsu", ROOT / "plugins" / "action" / "wsu.py")
wsu = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(wsu)


def arguments(kind, **variables):
    """Return the connection argument of a task on the host win1 that has these variables."""
    variables = {"inventory_hostname": "win1", "ansible_host": "192.0.2.7", "ansible_connection": kind, **variables}
    loader, context = DataLoader(), PlayContext()
    connection = connection_loader.get(kind, context, os.devnull)
    templar = Templar(loader=loader, variables=variables)
    connection.set_options(var_options={name: templar.template(value) for name, value in variables.items()})
    plugin = wsu.ActionModule(Task.load({"action": "wsu.windows.wmcb"}), connection, context, loader, templar, None)
    plugin._vars = variables
    return plugin._connection_arguments()


def test_a_winrm_host_is_its_address_its_login_and_the_port_of_https():
    given = arguments("winrm", ansible_user="Administrator", ansible_password="secret", ansible_winrm_transport="ntlm")
    assert {name: given[name] for name in ("inventory_hostname", "kind", "host", "port", "user", "password")} == {
        "inventory_hostname": "win1", "kind": "winrm", "host": "192.0.2.7", "port": 5986, "user": "Administrator", "password": "secret",
    }  # fmt: skip
    assert given["winrm"]["transport"] == ["ntlm"]
    assert "ssh" not in given


def test_a_winrm_host_without_a_transport_leaves_the_choice_to_the_module():
    assert "transport" not in arguments("winrm", ansible_user="Administrator")["winrm"]


def test_several_transports_keep_their_order():
    assert arguments("winrm", ansible_winrm_transport="kerberos,ntlm")["winrm"]["transport"] == ["kerberos", "ntlm"]
    assert arguments("winrm", ansible_winrm_transport=["ntlm", "basic"])["winrm"]["transport"] == ["ntlm", "basic"]


def test_every_winrm_variable_that_is_documented_arrives():
    given = arguments(
        "winrm",
        ansible_port=5985,
        ansible_winrm_scheme="http",
        ansible_winrm_path="/other",
        ansible_winrm_transport="kerberos",
        ansible_winrm_server_cert_validation="ignore",
        ansible_winrm_ca_trust_path="/etc/ca.pem",
        ansible_winrm_cert_pem="/etc/client.pem",
        ansible_winrm_cert_key_pem="/etc/client.key",
        ansible_winrm_message_encryption="always",
        ansible_winrm_service="WSMAN",
        ansible_winrm_kerberos_hostname_override="win1.example.com",
        ansible_winrm_kerberos_delegation=True,
        ansible_winrm_kinit_mode="manual",
        ansible_winrm_read_timeout_sec="40",
        ansible_winrm_operation_timeout_sec=20,
        wsu_winrm_certificate_fingerprint="SHA256:00",
        wsu_winrm_insecure_expose_credentials="yes",
    )
    assert given["port"] == 5985
    assert given["winrm"] == {
        "scheme": "http",
        "path": "/other",
        "transport": ["kerberos"],
        "server_cert_validation": "ignore",
        "ca_trust_path": "/etc/ca.pem",
        "cert_pem": "/etc/client.pem",
        "cert_key_pem": "/etc/client.key",
        "message_encryption": "always",
        "service": "WSMAN",
        "kerberos_hostname_override": "win1.example.com",
        "kerberos_delegation": True,
        "kinit_mode": "manual",
        "read_timeout_sec": 40,
        "operation_timeout_sec": 20,
        "certificate_fingerprint": "SHA256:00",
        "insecure_expose_credentials": True,
    }


def test_a_template_in_a_variable_that_ansible_does_not_know_is_rendered():
    given = arguments(
        "winrm",
        pki="/pki",
        ansible_winrm_ca_trust_path=trust_as_template("{{ pki }}/ca.pem"),
        wsu_winrm_insecure_expose_credentials=trust_as_template("{{ 1 == 2 }}"),
    )
    assert given["winrm"]["ca_trust_path"] == "/pki/ca.pem"
    assert "insecure_expose_credentials" not in given["winrm"]


def test_paths_of_the_control_host_are_made_whole(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    assert arguments("winrm", ansible_winrm_ca_trust_path="~/ca.pem")["winrm"]["ca_trust_path"] == "/home/somebody/ca.pem"
    assert arguments("psrp", ansible_psrp_ca_cert="~/ca.pem")["winrm"]["ca_trust_path"] == "/home/somebody/ca.pem"


def test_a_time_limit_that_is_no_number_is_named():
    with pytest.raises(wsu.WsuError, match="ansible_winrm_read_timeout_sec is 'soon', not a number") as caught:
        arguments("winrm", ansible_winrm_read_timeout_sec="soon")
    assert caught.value.reason == "argument_invalid"


def test_a_psrp_host_is_a_winrm_host():
    given = arguments(
        "psrp",
        ansible_user="Administrator",
        ansible_password="secret",
        ansible_port=5985,
        ansible_psrp_protocol="http",
        ansible_psrp_path="other",
        ansible_psrp_auth="kerberos",
        ansible_psrp_message_encryption="always",
        ansible_psrp_cert_validation="ignore",
        ansible_psrp_ca_cert="/etc/ca.pem",
        ansible_psrp_certificate_pem="/etc/client.pem",
        ansible_psrp_certificate_key_pem="/etc/client.key",
        ansible_psrp_negotiate_service="HTTP",
        ansible_psrp_negotiate_hostname_override="win1.example.com",
        wsu_winrm_certificate_fingerprint="SHA256:00",
    )
    assert given["kind"] == "winrm"
    assert (given["host"], given["port"], given["user"], given["password"]) == ("192.0.2.7", 5985, "Administrator", "secret")
    assert given["winrm"] == {
        "scheme": "http",
        "path": "/other",
        "transport": ["kerberos"],
        "message_encryption": "always",
        "server_cert_validation": "ignore",
        "ca_trust_path": "/etc/ca.pem",
        "cert_pem": "/etc/client.pem",
        "cert_key_pem": "/etc/client.key",
        "service": "HTTP",
        "kerberos_hostname_override": "win1.example.com",
        "certificate_fingerprint": "SHA256:00",
    }


def test_a_psrp_host_has_winrm_s_path_if_it_names_none():
    assert arguments("psrp")["winrm"]["path"] == "/wsman"


def test_the_arguments_of_ssh_come_in_openssh_s_order():
    given = arguments(
        "ssh",
        ansible_ssh_args="-J first",
        ansible_ssh_common_args="-o User=second",
        ansible_ssh_extra_args="-o Port=3",
        ansible_ssh_private_key_file="/keys/id",
    )
    assert given["ssh"]["common_args"] == "-J first -o User=second -o Port=3"
    assert given["ssh"]["private_key_file"] == "/keys/id"
    assert "winrm" not in given


def test_ansible_s_own_default_of_ssh_args_is_handed_over_as_it_is():
    assert arguments("ssh")["ssh"]["common_args"] == "-C -o ControlMaster=auto -o ControlPersist=60s"


def test_another_connection_is_refused_by_name():
    with pytest.raises(wsu.WsuError, match="ansible_connection wsu_nothing is not supported") as caught:
        plugin = wsu.ActionModule.__new__(wsu.ActionModule)
        plugin._connection = type("Connection", (), {"transport": "wsu_nothing"})()
        plugin._connection_arguments()
    assert caught.value.reason == "argument_invalid"
