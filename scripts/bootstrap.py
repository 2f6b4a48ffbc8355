"""Makes .venv and installs what the lock file names: what `make run` and `make test` begin with.

    python3 scripts/bootstrap.py serve|dev [--lock]

Written for any Python 3 and without third parties, so that it can say what is wrong on a machine that has nothing yet.
`--lock` writes the lock files anew from pyproject.toml (needs `uv` on the PATH).
"""

import hashlib
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
NEEDED = (3, 11)
NEEDED_BYTES = {"serve": 1_200_000_000, "dev": 2_000_000_000}
LOCKS = {"serve": "requirements.lock", "dev": "requirements-dev.lock"}
MARK = "# made from pyproject.toml sha256:"


def stop(what, remedy):
    sys.exit("\nCannot set up: {}\nWhat to do: {}\n".format(what, remedy))


def wanted_digest():
    """Digest of the parts of pyproject.toml that the lock files are made from."""
    import tomllib

    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        project = tomllib.load(file)
    parts = [project["project"]["dependencies"], project["dependency-groups"], project["build-system"]["requires"]]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def write_locks():
    uv = shutil.which("uv")
    if uv is None:
        stop("`uv` is not on the PATH", "install it (pip install uv) and run `make lock` again")
    groups = {"serve": ["--group", "build"], "dev": ["--group", "build", "--group", "dev", "-c", LOCKS["serve"]]}
    for kind, options in groups.items():
        path = os.path.join(ROOT, LOCKS[kind])
        subprocess.run(
            [uv, "pip", "compile", "-q", "pyproject.toml", "--python-version", "3.11", "--generate-hashes"]
            + ["--no-emit-index-url", "--no-header", *options, "-o", LOCKS[kind]],
            cwd=ROOT,
            check=True,
        )
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write("{}{}\n{}".format(MARK, wanted_digest(), text))
        print("wrote " + LOCKS[kind])


def check_machine(kind):
    if sys.version_info < NEEDED:
        stop(
            "this is Python {}.{}, and 3.11 or newer is needed".format(*sys.version_info),
            "install Python 3.11 and run `make {} PYTHON=python3.11`".format("run" if kind == "serve" else "test"),
        )
    free = shutil.disk_usage(ROOT).free
    if not os.path.exists(PYTHON) and free < NEEDED_BYTES[kind]:
        stop(
            "the disk of {} has {} MB free, and {} MB are needed".format(
                ROOT, free // 1_000_000, NEEDED_BYTES[kind] // 1_000_000
            ),
            "free some room, or clone the project onto another disk",
        )


def read_lock(kind):
    path = os.path.join(ROOT, LOCKS[kind])
    with open(path) as file:
        text = file.read()
    if text.splitlines()[0] != MARK + wanted_digest():
        stop(LOCKS[kind] + " is stale: pyproject.toml asks for other packages now", "run `make lock` and commit it")
    return text


def stamp_path(kind):
    return os.path.join(VENV, ".installed-" + kind)


def install(kind):
    digest = hashlib.sha256((read_lock(kind) + sys.version + VENV).encode()).hexdigest()
    kinds = [kind] if kind == "dev" else ["serve", "dev"]  # the dev lock holds everything that serving needs
    for known in kinds:
        expected = (
            digest if known == kind else hashlib.sha256((read_lock(known) + sys.version + VENV).encode()).hexdigest()
        )
        if os.path.exists(stamp_path(known)) and open(stamp_path(known)).read() == expected:
            return
    print("Setting up .venv (the first time takes a minute or two) ...", flush=True)
    if not os.path.exists(PYTHON):
        run([sys.executable, "-m", "venv", VENV], "the virtual environment could not be made")
    pip = [PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    # The lock names everything there is to install, so pip need not look for what is missing.
    run(
        pip + ["--no-deps", "--require-hashes", "-r", os.path.join(ROOT, LOCKS[kind])],
        "the packages of {} could not be installed".format(LOCKS[kind]),
    )
    run(pip + ["--no-deps", "--no-build-isolation", "-e", ROOT], "the project itself could not be installed")
    with open(stamp_path(kind), "w") as file:
        file.write(digest)


def run(command, failure):
    try:
        subprocess.run(command, check=True)
    except subprocess.CalledProcessError as error:
        stop(
            "{} (exit code {}; its own message is above)".format(failure, error.returncode),
            "check the network and pip's package index; if a half-made .venv is in the way, delete it and run again",
        )
    except OSError as error:
        stop("{}: {}".format(failure, error), "free disk space or mend the permissions of {}".format(ROOT))


def main():
    kind = sys.argv[1] if len(sys.argv) > 1 else "serve"
    if kind not in LOCKS:
        sys.exit(__doc__)
    check_machine(kind)
    if "--lock" in sys.argv:
        write_locks()
    else:
        install(kind)


if __name__ == "__main__":
    main()
