#!/usr/bin/env python3
"""Judge what `kubectl get nodes --watch --output-watch-events -o json` saw: watched.py LOG MOST.

Independent of the playbooks: it knows only what the API server said. Prints how many nodes were out of service (cordoned or not Ready) at most, and
every change of that; fails where there were more than MOST, or none at all, which would prove nothing. Nodes count from the first time on that
they are in service: a node that joins is not out of service.
"""

import json
import sys


def events(text):
    """Yield the objects of a stream of JSON documents; the last one may be cut off."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        while at < len(text) and text[at].isspace():
            at += 1
        try:
            document, at = decoder.raw_decode(text, at)
        except ValueError:
            return
        yield document


def out_of_service(node):
    """Say why a node takes no pods, or None."""
    conditions = {c["type"]: c["status"] for c in node["status"].get("conditions", [])}
    if conditions.get("Ready") != "True":
        return "not Ready"
    return "cordoned" if node["spec"].get("unschedulable") else None


def judge(stream):
    """Return the largest number of nodes out of service at once, and a line for each change."""
    seen, out, most, lines = set(), {}, 0, []
    for event in stream:
        node = event["object"]
        name, why = node["metadata"]["name"], out_of_service(node)
        if event["type"] == "DELETED":
            seen.discard(name)
            why = None
        elif why is None:
            seen.add(name)
        before = dict(out)
        if why and name in seen:
            out[name] = why
        else:
            out.pop(name, None)
        most = max(most, len(out))
        if out != before:
            annotations = node["metadata"].get("annotations", {})
            lines.append(
                f"{name} {out.get(name, 'in service')}, runs {annotations.get('wsu.windows/version')} "
                f"({node['status']['nodeInfo']['kubeletVersion']}); out of service: {len(out)}"
            )
    return most, lines


def main():
    log, limit = sys.argv[1], int(sys.argv[2])
    with open(log, encoding="utf-8") as file:
        most, lines = judge(events(file.read()))
    print("\n".join(lines))
    print(f"at most {most} nodes out of service at once, {limit} allowed")
    sys.exit(0 if 1 <= most <= limit else 1)


if __name__ == "__main__":
    main()
