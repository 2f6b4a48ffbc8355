"""Loads what serving loads, so that its bytecode stands in the image, whose root is read-only. Run by the Dockerfile.

The SDKs of judges are left to their first use: their bytecode is larger than that of all the rest.
"""

import importlib
import sys

MODULES = (
    "gateway.cli.serve",
    "gateway.cli.commands",
    "gateway.cli.verdicts",
    "gateway.app.serving",
    "gateway.app.judging",
    "alembic.command",
    "charset_normalizer",
    "faiss",
    "onnxruntime",
    "openpyxl",
    "opentelemetry.sdk.trace",
    "pypdf",
    "rich.table",
    "selectolax.lexbor",
    "tokenizers",
    "uvloop",
)

for name in MODULES:
    importlib.import_module(name)
print(f"{len(sys.modules)} modules loaded")
