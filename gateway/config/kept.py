"""The configuration that a gateway runs, kept in its data directory for workers that start later.

A worker that takes the place of a dead one has to run what its neighbours run. The file may hold something else by
then: a change that was refused, half of an edit, settings that wait for a restart. Knows nothing of processes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gateway.config.load import examine
from gateway.config.model import GatewayConfig
from gateway.config.reload import with_running_settings

_STARTED: Final = "started.yaml"
_IN_FORCE: Final = "in-force.yaml"


class KeptConfiguration:
    """Two texts in a folder that only its owner can read: what the gateway began with, and what it runs now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, text: str) -> None:
        """The gateway begins with this text. Raises `OSError`."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write(_STARTED, text)
        self._write(_IN_FORCE, text)

    def accept(self, text: str) -> None:
        """This text is in force from now on. Raises `OSError`."""
        self._write(_IN_FORCE, text)

    def read(self, path: Path, environ: Mapping[str, str]) -> GatewayConfig | None:
        """What the gateway runs, as if it stood in `path`; None if that cannot be told, e.g. as a secret file is gone.

        Settings that take a restart are those of the start, as in every other worker.
        """
        try:
            texts = [(self._folder / name).read_text(encoding="utf-8") for name in (_IN_FORCE, _STARTED)]
        except (OSError, UnicodeDecodeError):
            return None
        current, started = (examine(text, path, environ).config for text in texts)
        if current is None or started is None:
            return None
        return with_running_settings(current, started)[0]

    def clear(self) -> None:
        """The gateway ends; nothing is kept."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, name: str, text: str) -> None:
        # A reader sees the old text or the new one, never half of one; the pid keeps several writers apart.
        draft = self._folder / f".{name}.{os.getpid()}"
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
            draft.replace(self._folder / name)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
