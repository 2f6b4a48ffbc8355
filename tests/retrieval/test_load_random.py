"""No bytes make a loader fail in any way but `LoadError`."""

import io
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrieval.errors import LoadError
from retrieval.load import default_loaders, problems_of
from retrieval.types import Document, Loader

SEEDS = {
    ".pdf": b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/Contents 4 0 R>>endobj\n"
    b"4 0 obj<</Length 9>>stream\nBT (x) Tj ET\nendstream endobj\n"
    b"trailer<</Root 1 0 R>>\n%%EOF",
    ".html": b"<table><tr><th>a<td style='display:none'>b</table><ol start=x><li><pre>c</pre><base href=http://[>",
    ".md": b"---\na: [b\n---\n# h\n- a\n  1. b\n|a|b|\n|-|-|\n|c|\n<span hidden>x",
    ".csv": b'a,"b\n1,2;3\t4|5\n"',
    ".jsonl": b'{"text": "a", "id": {}}\n{"text": [], "url": 3}\n\xef\xbb\xbf',
    ".txt": b"\xff\xfea\0b",
    ".py": b"def f(): pass",
    ".xlsx": b"PK\x03\x04",
}
LOADERS = [(loader, loader.suffixes[0]) for loader in default_loaders()]


@st.composite
def mutated(draw: st.DrawFn, seed: bytes) -> bytes:
    data = bytearray(seed)
    for _ in range(draw(st.integers(0, 8))):
        position = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 6))
        data[position : position + length] = draw(st.binary(max_size=8))
    return bytes(data)


def check(loader: Loader, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    documents: list[Document] = []
    refused: LoadError | None = None
    reading: Iterable[Document] = ()
    try:
        reading = loader.load(path, root=path.parent)
        documents = list(reading)
    except LoadError as error:
        refused = error
    assert refused is None or (path.name in str(refused) and refused.hint)
    assert all(problem.hint for problem in problems_of(reading))
    for document in documents:
        document.text.encode("utf-8")
        offsets = [section.offset for section in document.sections]
        assert offsets == sorted(offsets)
        assert all(0 <= offset <= len(document.text) for offset in offsets)


@pytest.mark.parametrize(("loader", "suffix"), LOADERS, ids=[suffix for _, suffix in LOADERS])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_file_content_stops_an_ingest(loader: Loader, suffix: str, data: st.DataObject, tmp_path: Path) -> None:
    content = data.draw(st.binary(max_size=400) | mutated(SEEDS[suffix]))
    check(loader, tmp_path / f"a{suffix}", content)


@pytest.mark.parametrize("part", ["[Content_Types].xml", "xl/workbook.xml", "xl/worksheets/sheet1.xml"])
@pytest.mark.parametrize(
    "content", [b"", b"<a", b"<worksheet><sheetData><row><c t='s'><v>99</v></c></row></sheetData></worksheet>"]
)
def test_a_broken_workbook_stops_no_ingest(part: str, content: bytes, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(part, content)
    loader = next(loader for loader, suffix in LOADERS if suffix == ".xlsx")
    check(loader, tmp_path / "a.xlsx", buffer.getvalue())
