# Copyright: WSU contributors. Apache License 2.0 (see LICENSE)
"""Check what only Ansible itself knows: its version, the groups, and the names of the variables of every host."""

from __future__ import annotations

import difflib
import time

from ansible.plugins.action import ActionBase
from ansible.release import __version__ as core_version

OLDEST = (2, 16)
PREFIX = "wsu_"


def version_tuple(text):
    """Return (2, 19) for 2.19.14rc1."""
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in text.split(".")[:2])


def unknown_variables(names_by_place, known):
    """Return a sentence for each name with our prefix that is not ours, with what may have been meant."""
    places = {}
    for place, names in names_by_place.items():
        for name in names:
            if isinstance(name, str) and name.startswith(PREFIX) and name not in known:
                places.setdefault(name, []).append(place)
    return [sentence(name, where, known) for name, where in sorted(places.items())]


def sentence(name, where, known):
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; docs/variables.md lists all variables"
    shown = ", ".join(where[:3]) + (f" and {len(where) - 3} more" if len(where) > 3 else "")
    return f"{name} ({shown}): there is no such variable{hint}"


def choose_hosts(groups, new_workers, workers, windows):
    """Return the Windows hosts of the two groups, in the inventory's order, and which of them are new."""
    chosen = [*groups.get(new_workers, []), *groups.get(workers, [])]
    only = set(groups.get(windows, []))
    return [host for host in dict.fromkeys(chosen) if host in only]


def choose_only(wanted, groups, windows):
    """Return the hosts that wsu_remove_hosts names (a list, or separated by commas), and what is wrong with it."""
    names = wanted.split(",") if isinstance(wanted, str) else [str(name) for name in wanted or []]
    names = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not names:
        return [], "wsu_remove_hosts names no host. Say which to remove: -e wsu_remove_hosts=HOST,HOST"
    known = set(groups.get(windows, []))
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            return [], f"wsu_remove_hosts: {name} is no host of [{windows}] in this inventory.{hint}"
    return names, ""


class ActionModule(ActionBase):
    """Fail with every problem at once, or return the hosts of this run."""

    _supports_check_mode = True
    _requires_connection = False
    _VALID_ARGS = frozenset(("known", "new_workers_group", "workers_group", "windows_group", "only"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        del tmp
        args, hostvars = self._task.args, task_vars["hostvars"]
        if version_tuple(core_version) < OLDEST:
            return failure(
                result,
                "ansible_too_old",
                f"ansible-core {core_version} is too old. Install ansible-core 2.16 or later: "
                "pip install -r requirements.txt",
            )
        known = set(args["known"])
        names = {host: list(hostvars.raw_get(host)) for host in hostvars}
        names["this run"] = list(task_vars)
        problems = unknown_variables(names, known)
        if problems:
            return failure(result, "variable_unknown", "\n".join(problems))
        new, workers, windows = (args[key] for key in ("new_workers_group", "workers_group", "windows_group"))
        hosts = choose_hosts(task_vars["groups"], new, workers, windows)
        if not hosts and "only" not in args:
            return failure(
                result,
                "no_hosts",
                f"no host of [{new}] or [{workers}] is in [{windows}]. Put the hosts to add into [{new}], those that "
                f"have joined into [{workers}], and the Windows ones of them into [{windows}] as well; "
                "`ansible-inventory --graph -i INVENTORY` shows the groups.",
            )
        if "only" in args:
            hosts, problem = choose_only(args["only"], task_vars["groups"], windows)
            if problem:
                return failure(result, "no_hosts", problem)
        started = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        result.update(changed=False, hosts=hosts, started=started)
        return result


def failure(result, reason, msg):
    result.update(failed=True, changed=False, reason=reason, msg=msg)
    return result
