"""Run as a program: ingest a folder and die by SIGKILL at the n-th report of a stage.

Arguments: collection, folder, stage, n.
"""

import os
import signal
import sys
from pathlib import Path

from retrieval.collection import Collection
from retrieval.ingest import Progress
from retrieval.writer import CollectionSettings, IngestOptions
from tests.retrieval.library import CountingEncoder


def main() -> None:
    directory, folder, stage, turn = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    seen = 0

    def die(progress: Progress) -> None:
        nonlocal seen
        if progress.stage == stage:
            if seen == turn:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1

    settings = CollectionSettings(lock_wait_s=0.0, encode_batch=2)
    with Collection.open(directory, settings, CountingEncoder()) as collection:
        collection.ingest([folder], IngestOptions(progress=die))


if __name__ == "__main__":
    main()
