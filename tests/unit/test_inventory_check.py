"""inventory_check names every mistake before anything is touched."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "plugins" / "action" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = load("inventory_check")
wsu = load("wsu")
KNOWN = {"wsu_payload_url", "wsu_payload_ca_file", "wsu_node_ip"}
GROUPS = {"new_workers": ["a", "rhel"], "workers": ["b", "a"], "windows": ["b", "a", "c"]}


@pytest.mark.parametrize(("text", "old"), [("2.15.13", True), ("2.9.27", True), ("2.16.0", False), ("2.19.14", False), ("2.20.0rc1", False), ("3.0.0", False)])
def test_an_ansible_core_before_2_16_is_too_old(text, old):
    assert (check.version_tuple(text) < check.OLDEST) is old


def test_an_old_ansible_core_fails_by_name(monkeypatch):
    monkeypatch.setattr(check, "core_version", "2.15.13")
    monkeypatch.setattr(check.ActionBase, "run", lambda self, tmp, task_vars: {})
    plugin = check.ActionModule.__new__(check.ActionModule)
    plugin._task = type("Task", (), {"args": {}})()
    result = plugin.run(task_vars={"hostvars": {}})
    assert result["failed"]
    assert result["reason"] == "ansible_too_old"
    assert "2.15.13" in result["msg"]
    assert "pip install" in result["msg"]


def test_a_misspelt_variable_is_named_with_what_was_meant_and_where():
    problems = check.unknown_variables({"win1": ["wsu_paylod_url", "ansible_host", "other"], "this run": ["wsu_node_ip"]}, KNOWN)
    assert len(problems) == 1
    assert "wsu_paylod_url (win1)" in problems[0]
    assert "did you mean wsu_payload_url" in problems[0]


def test_the_places_of_a_mistake_are_not_a_flood():
    problems = check.unknown_variables({f"win{n}": ["wsu_typo_of_nothing"] for n in range(500)}, KNOWN)
    assert "and 497 more" in problems[0]


def test_only_windows_machines_of_the_two_groups_are_chosen_once():
    assert check.choose_hosts(GROUPS, "new_workers", "workers", "windows") == ["a", "b"]
    assert check.choose_hosts(GROUPS, "nothing", "workers", "nothing") == []


def test_the_hosts_to_remove_are_a_list_or_text():
    assert check.choose_only("a, c", GROUPS, "windows") == (["a", "c"], "")
    assert check.choose_only(["a", "a"], GROUPS, "windows") == (["a"], "")


@pytest.mark.parametrize(("wanted", "says"), [("", "names no host"), ([], "names no host"), ("rhel", "no host of [windows]"), ("aa", "Did you mean a?")])
def test_a_wrong_host_to_remove_is_named(wanted, says):
    hosts, problem = check.choose_only(wanted, GROUPS, "windows")
    assert hosts == []
    assert says in problem


def test_a_progress_line_has_host_phase_percentage_and_rate():
    event = wsu.parse_progress(b'wsu-progress {"phase": "transfer", "text": "files", "done": 43, "total": 100, "rate": 12300000}')
    assert wsu.progress_line("winhost1", event) == "winhost1 | transfer: files 43% 12.3 MB/s"
    assert wsu.parse_progress(b"anything else") is None
    assert wsu.parse_progress(b"wsu-progress {broken") is None


def test_a_module_without_a_result_is_a_failure_that_quotes_what_it_said():
    with pytest.raises(wsu.WsuError, match="ended by signal 9"):
        wsu.parse_result(b"", -9, "transfer", "")
    with pytest.raises(wsu.WsuError, match="panic: oh"):
        wsu.parse_result(b"panic", 2, "transfer", "panic: oh")


def test_a_result_with_a_bad_exit_code_is_failed():
    assert wsu.parse_result(b'{"changed": true}', 1, "node", "") == {"changed": True, "failed": True}


def test_a_machine_without_modules_is_told_what_to_do(tmp_path):
    with pytest.raises(wsu.WsuError, match="make build"):
        wsu.binary_path(str(tmp_path), "Linux", "riscv64")
