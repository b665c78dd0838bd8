#!/usr/bin/env python3
"""What the licences of linked crates ask for: who made them, and the texts.

    tools/licences.py [TARGET] >FILE

Of all crates that are linked into the program and the libraries on TARGET (this
machine's, if none is said). A text that several crates share stands once. A
crate that brings no text is an error, unless its licence is one of COMMON,
whose text another crate brings.
"""
import hashlib
import json
import pathlib
import subprocess
import sys

PACKAGES = ("tabane", "tabane-capi", "tabane-fabric", "tabane-vipl")
NAMES = ("licen[cs]e*", "LICEN[CS]E*", "COPYING*", "NOTICE*", "UNLICENSE*")
COMMON = ("MIT OR Apache-2.0", "Apache-2.0 OR MIT", "MIT/Apache-2.0", "MIT")


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def this_machine():
    said = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return next(line.split()[1] for line in said.splitlines() if line.startswith("host:"))


def linked(target):
    """The names and versions of what is linked, our own crates left out."""
    asked = [word for package in PACKAGES for word in ("--package", package)]
    lines = cargo("tree", *asked, "--target", target, "--edges", "normal", "--prefix", "none").splitlines()
    words = [line.split() for line in lines if line and "(proc-macro)" not in line]
    return {(word[0], word[1].removeprefix("v")) for word in words if not word[0].startswith("tabane")}


def main(target):
    wanted = linked(target)
    known = cargo("metadata", "--format-version", "1", "--filter-platform", target)
    packages = json.loads(known)["packages"]
    packages = [p for p in packages if (p["name"], p["version"]) in wanted]
    assert len(packages) == len(wanted), "cargo tree and cargo metadata disagree"
    texts = {}
    for package in sorted(packages, key=lambda p: (p["name"], p["version"])):
        place = pathlib.Path(package["manifest_path"]).parent
        files = {file for name in NAMES for file in place.glob(name) if file.is_file()}
        if not files and package["license"] not in COMMON:
            sys.exit(f"licences: {package['name']} ({package['license']}) brings no text")
        print(f"{package['name']} {package['version']}: {package['license']}", end="")
        print("; " + ", ".join(package["authors"]) if package["authors"] else "")
        for file in sorted(files):
            text = file.read_text(errors="replace").strip()
            digest = hashlib.sha256(" ".join(text.split()).encode()).digest()
            texts.setdefault(digest, (text, []))[1].append(f"{package['name']} ({file.name})")
    for text, crates in texts.values():
        print("\n" + "-" * 78 + "\n" + ", ".join(crates) + "\n\n" + text)


main(sys.argv[1] if sys.argv[1:] else this_machine())
