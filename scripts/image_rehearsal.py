"""Runs the Dockerfile's own steps without a container engine, says how large the result is, and tries it.

    sudo .venv/bin/python scripts/image_rehearsal.py --folder FOLDER [--pip-conf FILE] [--bind PATH ...] [--limit-mb N]

Each stage is a folder. The base image is what `debootstrap` makes of its name, without what Debian's slim images leave
out. RUN goes through chroot, COPY and ENV as a container engine would do them. The trial then starts the image's own
command as its own user over a read-only root, with the two folders that it may write. Needs root and debootstrap; works
in mount namespaces of its own, so nothing stays mounted. Knows only the instructions that our Dockerfile uses.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from gateway.ledger.embedded import EmbeddedPostgres

ROOT = Path(__file__).resolve().parents[1]
INSIDE = "IMAGE_REHEARSAL_NAMESPACE"
# What Debian's slim images leave out: https://github.com/debuerreotype/debuerreotype, `.slimify-excludes`.
SLIM = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian", "usr/share/groff")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PORT = 18543
CONFIG = f"""
ledger: {{database_url: "${{DATABASE_URL}}"}}
data_dir: ${{GATEWAY_DATA_DIR}}
server: {{host: 127.0.0.1, port: {PORT}}}
upstreams: {{extractive: {{kind: extractive}}}}
collections: {{docs: {{paths: [docs]}}}}
routes: {{docs: {{default: true, upstream: extractive, retrieval: {{collections: [docs]}}, check: {{kind: facts}}}}}}
"""
DOCUMENT = "# Plans\n\nThe Monthly plan costs 27 EUR and includes 300 minutes of riding.\n"


@dataclass
class Image:
    """A stage: its folder, and what it says about processes that run in it."""

    root: Path
    env: dict[str, str] = field(
        default_factory=lambda: {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/bin"}
    )
    workdir: str = "/"
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)


def instructions(text: str) -> list[tuple[str, str]]:
    """Instructions of a Dockerfile in order: name, rest; continued lines joined, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    found = []
    for line in joined.splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            found.append((name.upper(), rest.strip()))
    return found


class Rehearsal:
    """Stages made one after another under `folder`."""

    def __init__(self, folder: Path, pip_conf: Path | None, binds: list[str]) -> None:
        self._folder = folder
        self._pip_conf = pip_conf
        self._binds = binds
        self._stages: dict[str, Image] = {}

    def build(self, text: str) -> Image:
        """The last stage."""
        image = Image(self._folder)
        for number, (name, rest) in enumerate(instructions(text)):
            print(f"{name} {rest[:150]}", flush=True)
            if name == "FROM":
                image = self._stage(rest.split(), number)
            else:
                self._do(image, name, rest)
        return image

    def _stage(self, words: list[str], number: int) -> Image:
        name = words[2] if len(words) > 2 else f"stage{number}"
        root = self._folder / name
        if words[0] == "scratch":
            root.mkdir()
            image = Image(root)
        elif words[0] in self._stages:
            known = self._stages[words[0]]
            subprocess.run(["cp", "-a", "--reflink=auto", known.root, root], check=True)
            image = Image(root, dict(known.env), known.workdir, known.user)
        else:
            debian_slim(words[0], root)
            image = Image(root)
        self._stages[name] = image
        return image

    def _do(self, image: Image, name: str, rest: str) -> None:
        if name == "RUN":
            self._run(image, rest)
        elif name == "COPY":
            self._copy(image, shlex.split(rest))
        elif name == "ENV":
            image.env.update(dict(word.split("=", 1) for word in shlex.split(rest)))
        elif name == "WORKDIR":
            image.workdir = rest
            (image.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name == "USER":
            image.user = rest
        elif name == "ENTRYPOINT":
            image.entrypoint = json.loads(rest)
        elif name == "CMD":
            image.command = json.loads(rest)
        elif name not in ("LABEL", "EXPOSE", "STOPSIGNAL"):
            raise SystemExit(f"the rehearsal does not know {name}; teach it, or leave it out of the Dockerfile")

    def _run(self, image: Image, command: str) -> None:
        secret = re.match(r"--mount=type=secret,id=pip,target=(\S+)\s+", command)
        binds = list(self._binds)
        if secret:
            command = command[secret.end() :]
            if self._pip_conf:
                binds.append(f"{self._pip_conf}:{secret[1]}")
        with Mounted(image.root, [*binds, "/etc/resolv.conf", "/dev", "/proc"]):
            done = subprocess.run(in_image(image, ["/bin/sh", "-ec", command]), env=image.env, check=False)
        if done.returncode:
            raise SystemExit(f"a step failed with exit code {done.returncode}: RUN {command}")

    def _copy(self, image: Image, words: list[str]) -> None:
        start = ROOT
        if words[0].startswith("--from="):
            start = self._stages[words.pop(0).removeprefix("--from=")].root
        *sources, target = words
        place = image.root / os.path.normpath(
            f"{image.workdir}/{target}" if not target.startswith("/") else target
        ).lstrip("/")
        for source in sources:
            origin = start / source.lstrip("/")
            if start != ROOT and origin.is_dir():
                # As a container engine does: owners, times and links stay.
                place.mkdir(parents=True, exist_ok=True)
                subprocess.run(["cp", "-a", "--reflink=auto", f"{origin}/.", place], check=True)
            elif origin.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(origin, place, symlinks=True, dirs_exist_ok=True, ignore=ignored)
            else:
                shutil.copy2(origin, place / origin.name if target.endswith("/") else place)


def debian_slim(name: str, root: Path) -> None:
    """Debian as its slim image has it."""
    found = re.fullmatch(r"debian:(\w+)-slim", name)
    if not found:
        raise SystemExit(f"the base image {name} cannot be made here; debian:<release>-slim can")
    subprocess.run(["debootstrap", "--variant=minbase", found[1], root], check=True, stdout=subprocess.DEVNULL)
    rules = "".join(f"path-exclude /{place}/*\n" for place in SLIM)
    (root / "etc/dpkg/dpkg.cfg.d/slim").write_text(rules + "path-include /usr/share/doc/*/copyright\n")
    for place in SLIM:
        for file in (root / place).rglob("*"):
            if not file.is_dir() and file.name != "copyright":
                file.unlink()
    for place in ("var/cache/apt", "var/lib/apt/lists", "var/log"):
        shutil.rmtree(root / place)
    for place in ("var/cache/apt/archives/partial", "var/lib/apt/lists/partial", "var/log"):
        (root / place).mkdir(parents=True)


class Mounted:
    """Files and folders of this machine inside an image, for the time of a step. `PATH` or `PATH:TARGET`."""

    def __init__(self, root: Path, binds: list[str]) -> None:
        self._root = root
        self._binds = binds
        self._made: list[Path] = []

    def __enter__(self) -> None:
        for bind in self._binds:
            source, _, target = bind.partition(":")
            place = self._root / (target or source).lstrip("/")
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.mkdir() if Path(source).is_dir() else place.touch()
                self._made.append(place)
            subprocess.run(["mount", "--rbind", source, place], check=True)

    def __exit__(self, *_: object) -> None:
        for bind in reversed(self._binds):
            source, _, target = bind.partition(":")
            subprocess.run(["umount", "-l", self._root / (target or source).lstrip("/")], check=True)
        for place in reversed(self._made):
            place.rmdir() if place.is_dir() else place.unlink()


def in_image(image: Image, command: list[str]) -> list[str]:
    program = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin")
    assert program is not None
    return [program, f"--userspec={image.user}", str(image.root), "/usr/bin/env", "-C", image.workdir, *command]


def megabytes(path: Path) -> float:
    """The sum of the files' sizes, in millions of bytes; what a disk takes for them depends on its blocks."""
    done = subprocess.run(["du", "-sxb", path], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[0]) / 1e6


def trial(image: Image, folder: Path, database: str) -> None:
    """Serve over a read-only root as the image's user, ask one question, look at the API's description, stop."""
    settings = folder / "settings"
    (settings / "docs").mkdir(parents=True)
    (settings / "gateway.yaml").write_text(CONFIG)
    (settings / "docs/plans.md").write_text(DOCUMENT)
    place = image.root / Path(image.env["GATEWAY_CONFIG"]).parent.relative_to("/")
    place.mkdir(exist_ok=True)
    data = image.root / image.env["GATEWAY_DATA_DIR"].lstrip("/")
    user, _, group = image.user.partition(":")
    subprocess.run(["mount", "--bind", image.root, image.root], check=True)
    for target, mode in ((data, "0700"), (image.root / "tmp", "1777")):
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"uid={user},gid={group},mode={mode}", "tmpfs", target], check=True
        )
    subprocess.run(["mount", "--bind", settings, place], check=True)
    subprocess.run(["mount", "-t", "proc", "proc", image.root / "proc"], check=True)
    subprocess.run(["mount", "--rbind", "/dev", image.root / "dev"], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", image.root], check=True)
    started = time.monotonic()
    env = {**image.env, "DATABASE_URL": database}
    process = subprocess.Popen(in_image(image, [*image.entrypoint, *image.command]), env=env)
    try:
        wait_ready(process)
        print(f"ready after {time.monotonic() - started:.1f} s as user {image.user}, root read-only")
        body = json.dumps(
            {"model": "docs", "messages": [{"role": "user", "content": "What does the Monthly plan cost?"}]}
        )
        address = f"http://127.0.0.1:{PORT}/v1/chat/completions"
        request = urllib.request.Request(address, body.encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)
        status = answer["grounding"]["checks"][0]["status"]
        print(f"answer: {answer['choices'][0]['message']['content']!r}, verdict: {status}")
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/schema/openapi.json", timeout=60) as response:
            json.load(response)
        if status != "passed":
            raise SystemExit("the image's gateway gave no good verdict")
    finally:
        process.terminate()
        code = process.wait(60)
    if code:
        raise SystemExit(f"the gateway ended with exit code {code}")


def wait_ready(process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise SystemExit(f"the image's command ended with exit code {process.returncode}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/readyz", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("the image's command did not get ready within two minutes")


async def in_namespace(folder: Path) -> int:
    """This program again, in a mount namespace of its own, with a Postgres for the trial; its exit code."""
    postgres = EmbeddedPostgres(folder)
    os.environ[INSIDE] = await postgres.start()
    try:
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv]
        return await asyncio.to_thread(subprocess.call, command)
    finally:
        await postgres.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the stages are made; must not exist")
    parser.add_argument("--pip-conf", type=Path, help="given to the step that mounts the secret `pip`")
    parser.add_argument("--bind", action="append", default=[], help="a path of this machine that steps may read")
    parser.add_argument("--limit-mb", type=float, default=500, help="fail when the root file system is larger")
    given = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        sys.exit("the rehearsal needs root and the program debootstrap")
    if INSIDE not in os.environ:
        sys.exit(asyncio.run(in_namespace(given.folder.with_name(given.folder.name + "-ledger"))))
    given.folder.mkdir(parents=True)
    image = Rehearsal(given.folder.resolve(), given.pip_conf, given.bind).build((ROOT / "Dockerfile").read_text())
    total = megabytes(image.root)
    packages = megabytes(image.root / "opt")
    print(
        f"root file system: {total:.0f} MB (Debian and Python {total - packages:.0f} MB, the gateway {packages:.0f} MB)"
    )
    if total > given.limit_mb:
        sys.exit(f"the root file system takes {total:.0f} MB, more than {given.limit_mb:.0f} MB")
    trial(image, given.folder.resolve(), os.environ[INSIDE])


if __name__ == "__main__":
    main()
