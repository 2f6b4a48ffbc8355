"""The lexical leg: BM25 over stemmed words (tantivy), under the same int64 rows as the vectors.

One directory per generation, beside the vectors' snapshot of that generation. The next generation starts from hard
links to the files of the last one, which tantivy never changes in place; what is added and deleted goes into new files.
So a reader of an old generation is never disturbed, and a crash leaves the old generation whole. A manifest with the
SHA-256 of every file is written last: a directory without one does not count.

A score is the share of the most that any passage could reach for this query: BM25 over the sum of
`idf * (k1 + 1)` of the query's terms, between 0 and 1, so that scores of several queries and collections compare
(BM25: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009; k1 = 1.2 and b = 0.75 are tantivy's).

Knows nothing of vectors, documents, permissions or how rows are stored.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import tantivy

from retrieval.errors import IndexCorruptError, IndexMismatchError, RetrievalError, SearchError
from retrieval.index.snapshot import DataFile, sha256_of, sync_directory, write_atomically
from retrieval.index.words import FUNCTION_WORDS, STEMMERS

MANIFEST = "lexical.json"
FORMAT = 1
K1 = 1.2  # tantivy's
LONGEST_WORD = 64  # bytes
WRITER_BYTES = 48_000_000
# Deleted passages still count in document frequencies until their segment is merged: past this share all is made anew.
DEAD_SHARE = 0.3
# Up to so many allowed rows the engine looks for them itself; above, hits outside are passed over.
ALLOWED_TERMS = 2_000
OVERFETCH = 1.3
TEXT, ROW, WORDS = "text", "row", "words"
# The engine replaces these by rename; every other file keeps its content for good.
REPLACED = frozenset({"meta.json", ".managed.json"})
LEXICAL_HINT = "it is made anew from the stored passages by the next `grounding-gateway ingest`, or by a restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalSettings:
    """`languages` whose words are stemmed (ISO 639-1), at most one of each script: more cannot be told apart."""

    languages: tuple[str, ...] = ("en", "ru")

    def __post_init__(self) -> None:
        for language in self.languages:
            if language not in STEMMERS:
                raise ValueError(f"no stemmer for {language!r}; known: {', '.join(sorted(STEMMERS))}")
        scripts = [STEMMERS[language].script for language in self.languages]
        if len(set(scripts)) != len(scripts):
            raise ValueError("two languages of one script cannot be stemmed in one index: choose one of them")

    def describe(self) -> str:
        """What the files were made with; files of another description are made anew."""
        return f"words-{FORMAT}/{'+'.join(self.languages)}/{version('tantivy')}"


@dataclass(frozen=True, slots=True)
class _Manifest:
    """What lies in a directory. `dropped` counts rows deleted since the last full build."""

    made_with: str
    live: int
    dropped: int
    files: Mapping[str, DataFile]


class LexicalIndex:
    """One generation, open for searching. Immutable, and safe from any thread."""

    def __init__(self, index: tantivy.Index, manifest: _Manifest, settings: LexicalSettings) -> None:
        self._index = index
        self._searcher = index.searcher()
        self._schema = index.schema
        self._manifest = manifest
        self._analyzer = _analyzer(settings)
        self._function_words = frozenset(self._analyzer.analyze(FUNCTION_WORDS))

    @classmethod
    def load(cls, directory: Path, settings: LexicalSettings, *, reuse: LexicalIndex | None = None) -> Self:
        """Open a generation, checking every byte but of files that `reuse` has checked.

        Raises `IndexCorruptError` when it is damaged or not there, `IndexMismatchError` when it was made otherwise.
        """
        manifest = _read_manifest(directory)
        if manifest.made_with != settings.describe():
            raise IndexMismatchError(
                f"{directory} was made as {manifest.made_with!r}, not {settings.describe()!r}", hint=LEXICAL_HINT
            )
        known = reuse._manifest.files if reuse else {}
        for name, file in manifest.files.items():
            _check(directory / name, file, read=known.get(name) != file)
        try:
            return cls(_opened(directory, settings), manifest, settings)
        except (ValueError, OSError) as error:
            raise _damaged(directory, f"the engine cannot open it ({error})") from error

    @property
    def live(self) -> int:
        """How many rows it holds."""
        return int(self._searcher.num_docs)

    @property
    def bytes(self) -> int:
        """Bytes on disk."""
        return sum(file.bytes for file in self._manifest.files.values())

    def terms(self, query: str) -> tuple[str, ...]:
        """The distinct stemmed words of a query, without function words unless there is nothing else."""
        words = tuple(dict.fromkeys(self._analyzer.analyze(query)))
        return tuple(word for word in words if word not in self._function_words) or words

    def search(self, query: str, k: int, allowed: npt.NDArray[np.int64] | None = None) -> list[tuple[int, float]]:
        """Up to `k` (row, score) pairs, best first, equal scores by row; only rows that hold a word of the query.

        `allowed` restricts the search to these rows. Raises `SearchError`.
        """
        count = self.live if allowed is None else min(len(allowed), self.live)
        k = min(k, count)
        terms = self._telling(self.terms(query)) if k > 0 else ()
        if not terms:
            return []
        try:
            if allowed is None:
                return self._run(terms, k)[0]
            if len(allowed) <= ALLOWED_TERMS:
                return self._run(terms, k, within=allowed.tolist())[0]
            return self._passing_over(terms, k, allowed)
        except (ValueError, OSError) as error:
            raise SearchError(f"the lexical leg failed: {error}", hint=LEXICAL_HINT) from error

    def _telling(self, terms: Sequence[str]) -> Sequence[str]:
        """Without words that more than half of the passages hold: they say little, and cost a walk through all."""
        return [term for term in terms if 2 * self._searcher.doc_freq(TEXT, term) <= self.live] or terms

    def holding(self, rows: npt.NDArray[np.int64]) -> int:
        """How many of these rows it holds."""
        query = tantivy.Query.term_set_query(self._schema, ROW, rows.tolist())
        return len(self._searcher.search(query, max(1, len(rows)), count=False).hits)

    def _passing_over(self, terms: Sequence[str], k: int, allowed: npt.NDArray[np.int64]) -> list[tuple[int, float]]:
        permitted = np.unique(allowed)
        fetch = math.ceil(k * self.live / len(permitted) * OVERFETCH)
        while True:
            found, whole = self._run(terms, min(fetch, self.live))
            rows = np.fromiter((row for row, _ in found), dtype=np.int64, count=len(found))
            at = np.minimum(np.searchsorted(permitted, rows), len(permitted) - 1)
            kept = np.flatnonzero(permitted[at] == rows)
            if len(kept) >= k or whole:
                return [found[place] for place in kept[:k]]
            fetch *= 4

    def _run(
        self, terms: Sequence[str], limit: int, within: list[int] | None = None
    ) -> tuple[list[tuple[int, float]], bool]:
        """The best rows, and whether there are no more."""
        searcher = self._searcher
        union = tantivy.Query.boolean_query(
            [(tantivy.Occur.Should, tantivy.Query.term_query(self._schema, TEXT, term, "freq")) for term in terms]
        )
        query = union
        if within is not None:
            among = tantivy.Query.const_score_query(tantivy.Query.term_set_query(self._schema, ROW, within), 0.0)
            query = tantivy.Query.boolean_query([(tantivy.Occur.Must, among), (tantivy.Occur.Must, union)])
        hits = searcher.search(query, limit, count=False).hits
        if not hits:
            return [], True
        rows = np.array(searcher.fast_field_values(ROW, [address for _, address in hits]), dtype=np.int64)
        scores = np.array([score for score, _ in hits], dtype=np.float64) / self._ceiling(terms)
        order = np.lexsort((rows, -scores))
        pairs = zip(rows[order].tolist(), np.minimum(scores[order], 1.0).tolist(), strict=True)
        return list(pairs), len(hits) < limit

    def _ceiling(self, terms: Sequence[str]) -> float:
        total = self.live
        most = 0.0
        for term in terms:
            holding = min(self._searcher.doc_freq(TEXT, term), total)
            most += math.log(1 + (total - holding + 0.5) / (holding + 0.5))
        return most * (1 + K1)


def build(directory: Path, settings: LexicalSettings, entries: Iterable[tuple[int, str]]) -> None:
    """A generation from all (row, text) pairs. `directory` must not exist; raises `RetrievalError` (a full disk)."""
    with _writing(directory):
        index = tantivy.Index(_schema(), path=str(directory), reuse=False)
        live = _change(index, settings, entries, ())
        _commit(directory, settings, live=live, dropped=0, known={})


def advance(
    previous: Path,
    directory: Path,
    settings: LexicalSettings,
    added: Iterable[tuple[int, str]],
    gone: Sequence[int],
) -> bool:
    """The generation after `previous`: without `gone`, with `added`. Costs what changed, not what is there.

    `False`, with nothing written, when everything has to be built anew: `previous` is missing, damaged, made otherwise,
    or holds too much that was deleted. Raises `RetrievalError`.
    """
    try:
        manifest = _read_manifest(previous)
    except IndexCorruptError:
        return False
    dropped = manifest.dropped + len(gone)
    if manifest.made_with != settings.describe() or dropped > DEAD_SHARE * max(1, manifest.live):
        return False
    with _writing(directory):
        for name, file in manifest.files.items():
            _check(previous / name, file, read=False)
            _link(previous / name, directory / name)
        index = _opened(directory, settings)
        live = _change(index, settings, added, gone)
        _commit(directory, settings, live=live, dropped=dropped, known=manifest.files)
    return True


def damage(directory: Path, settings: LexicalSettings, rows: npt.NDArray[np.int64]) -> list[str]:
    """What is wrong with a generation that should hold exactly `rows`: one sentence each."""
    try:
        index = LexicalIndex.load(directory, settings)
    except RetrievalError as error:
        return [str(error)]
    missing = 0
    for first in range(0, len(rows), 10_000):
        part = rows[first : first + 10_000]
        missing += len(part) - index.holding(part)
    problems = [f"{missing} passages are not in the lexical index"] if missing else []
    if (extra := index.live - (len(rows) - missing)) > 0:
        problems.append(f"the lexical index holds {extra} passages that do not exist")
    return problems


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(TEXT, stored=False, tokenizer_name=WORDS, index_option="freq")
    builder.add_integer_field(ROW, indexed=True, fast=True)
    return builder.build()


def _analyzer(settings: LexicalSettings) -> tantivy.TextAnalyzer:
    """Words, lower case, stemmed. A stemmer leaves words of another script alone, so the chain suits mixed texts."""
    filters = [tantivy.Filter.remove_long(LONGEST_WORD), tantivy.Filter.lowercase()]
    filters += [tantivy.Filter.stemmer(STEMMERS[language].name) for language in settings.languages]
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for each in (*filters, tantivy.Filter.ascii_fold()):
        builder = builder.filter(each)
    return builder.build()


def _opened(directory: Path, settings: LexicalSettings) -> tantivy.Index:
    index = tantivy.Index.open(str(directory))
    # By itself the engine would watch the directory from a thread of its own; a generation never changes.
    index.config_reader("manual")
    index.register_tokenizer(WORDS, _analyzer(settings))
    return index


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    """Makes the directory; removes it again when what is inside fails."""
    try:
        directory.mkdir(parents=True)
        yield
    except (ValueError, OSError) as error:
        shutil.rmtree(directory, ignore_errors=True)
        raise RetrievalError(
            f"the lexical index {directory} cannot be written: {error}",
            hint="free disk space or repair the directory; the collection is as it was before",
        ) from error
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _change(
    index: tantivy.Index, settings: LexicalSettings, added: Iterable[tuple[int, str]], gone: Iterable[int]
) -> int:
    """Delete and add; gives how many rows there are then."""
    index.register_tokenizer(WORDS, _analyzer(settings))
    writer = index.writer(WRITER_BYTES, 1)
    try:
        for row in gone:
            writer.delete_documents_by_term(ROW, row)
        for row, text in added:
            document = tantivy.Document()
            document.add_integer(ROW, row)
            document.add_text(TEXT, text)
            writer.add_document(document)
        writer.commit()
    except BaseException:
        # Its threads would go on writing into a directory that is about to be removed.
        writer.rollback()
        writer.wait_merging_threads()
        raise
    # Merges go on in threads of the engine; afterwards the files are what the manifest will say.
    writer.wait_merging_threads()
    index.reload()
    return int(index.searcher().num_docs)


def _commit(
    directory: Path, settings: LexicalSettings, *, live: int, dropped: int, known: Mapping[str, DataFile]
) -> None:
    """Write the manifest. A file of the last generation that is still there is unchanged, its checksum known."""
    files = {}
    for path in sorted(directory.iterdir()):
        if path.name.endswith(".lock"):
            path.unlink(missing_ok=True)
        elif path.name in known and path.name not in REPLACED:
            files[path.name] = known[path.name]
        else:
            files[path.name] = DataFile(name=path.name, bytes=path.stat().st_size, sha256=sha256_of(path))
    body = {
        "made_with": settings.describe(),
        "live": live,
        "dropped": dropped,
        "files": {name: asdict(file) for name, file in files.items()},
    }
    sync_directory(directory)
    write_atomically(directory / MANIFEST, json.dumps({**body, "sha256": _checksum(body)}).encode())
    sync_directory(directory.parent)


def _read_manifest(directory: Path) -> _Manifest:
    try:
        body = json.loads((directory / MANIFEST).read_bytes())
        if body.pop("sha256") != _checksum(body):
            raise _damaged(directory / MANIFEST, "its checksum does not match")
        files = {name: DataFile(**file) for name, file in body["files"].items()}
        return _Manifest(made_with=body["made_with"], live=body["live"], dropped=body["dropped"], files=files)
    except FileNotFoundError as error:
        raise _damaged(directory / MANIFEST, "it is missing") from error
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise _damaged(directory / MANIFEST, f"it cannot be read ({type(error).__name__})") from error


def _checksum(body: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _check(path: Path, file: DataFile, *, read: bool) -> None:
    """Raises `IndexCorruptError` unless size and, with `read`, the bytes are as the manifest says."""
    try:
        if path.stat().st_size != file.bytes:
            raise _damaged(path, f"it has not the {file.bytes} bytes that were written")
        if read and sha256_of(path) != file.sha256:
            raise _damaged(path, "its checksum does not match")
    except OSError as error:
        raise _damaged(path, f"it cannot be read ({error.strerror})") from error


def _damaged(path: Path, reason: str) -> IndexCorruptError:
    return IndexCorruptError(f"lexical index file {path} is damaged: {reason}", hint=LEXICAL_HINT)


def _link(source: Path, target: Path) -> None:
    """The same file under another directory; a copy where it may be replaced, or links are not to be had."""
    if source.name not in REPLACED:
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copy2(source, target)
