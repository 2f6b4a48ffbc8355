"""Run as a program: answer each line of standard input with the JSON list of found texts. Argument: collection."""

import json
import sys
from pathlib import Path

from retrieval.collection import Collection
from tests.retrieval.library import SETTINGS, CountingEncoder, ask


def main() -> None:
    with Collection.open(Path(sys.argv[1]), SETTINGS, CountingEncoder()) as collection:
        for line in sys.stdin:
            print(json.dumps([hit.passage.text for hit in ask(collection, line.strip(), k=50)]), flush=True)


if __name__ == "__main__":
    main()
