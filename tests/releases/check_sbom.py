"""Check an SBOM: check_sbom.py SCHEMAS SBOM BINARY... It is valid, and names each binary by its digest and every module in it."""

import hashlib
import json
import pathlib
import subprocess
import sys

from jsonschema import Draft7Validator, FormatChecker
from referencing import Registry, Resource

SCHEMAS = ("bom-1.6.schema.json", "spdx.schema.json", "jsf-0.82.schemax.json")


def validator(folder):
    schemas = [json.loads((folder / name).read_text()) for name in SCHEMAS]
    registry = Registry().with_resources([(schema["$id"], Resource.from_contents(schema)) for schema in schemas])
    return Draft7Validator(schemas[0], registry=registry, format_checker=FormatChecker())


def modules(binary):
    """Return the modules that `go version -m` shows, after replacement, without the project's own."""
    found = []
    shown = subprocess.run(["go", "version", "-m", binary], check=True, capture_output=True, text=True).stdout
    for line in shown.splitlines():
        kind, *words = line.split() or [""]
        if kind in ("mod", "dep") and words[1] != "(devel)":
            found.append((words[0], words[1]))
        elif kind == "=>":
            found[-1] = (words[0], words[1])
    return found


def main(schemas, document, *binaries):
    sbom = json.loads(pathlib.Path(document).read_text())
    problems = [error.message for error in validator(pathlib.Path(schemas)).iter_errors(sbom)]
    components = {component["bom-ref"]: component for component in sbom["components"]}
    needs = {entry["ref"]: entry.get("dependsOn", []) for entry in sbom["dependencies"]}
    count = 0
    for binary in map(pathlib.Path, binaries):
        ref = f"file:{binary.name}"
        digest = hashlib.sha256(binary.read_bytes()).hexdigest()
        if components.get(ref, {}).get("hashes") != [{"alg": "SHA-256", "content": digest}]:
            problems.append(f"{binary.name}: it is not there with its digest")
        named = {(components[need]["name"], components[need]["version"]) for need in needs.get(ref, [])}
        linked = modules(binary)
        if not linked:
            problems.append(f"{binary.name}: go version -m shows no modules")
        problems += [f"{binary.name}: {path} {version} is missing" for path, version in linked if (path, version) not in named]
        count += len(linked)
    for problem in problems:
        print("FAIL", problem)
    if not problems:
        print(f"ok   the SBOM is valid CycloneDX {sbom['specVersion']} and names all {count} modules of {len(binaries)} binaries")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
