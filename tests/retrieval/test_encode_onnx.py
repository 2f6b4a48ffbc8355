import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.encode import (
    OnnxEncoder,
    OnnxSettings,
    default_encoder,
)
from retrieval.encode.base import approximate_offsets, token_batches, unit_rows
from retrieval.errors import EncodeError
from retrieval.split import embedding_text, split
from retrieval.types import Document

ROOT = Path(__file__).parents[2]
SHIPPED = Path(str(resources.files("retrieval") / "models" / "minilm-l6-v2"))


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    return default_encoder()


def test_the_shipped_files_are_those_that_their_configuration_describes() -> None:
    config = json.loads((SHIPPED / "config.json").read_text())
    for name in ("model.int8.onnx", "tokenizer.json"):
        assert hashlib.sha256((SHIPPED / name).read_bytes()).hexdigest() == config["sha256"][name]
    assert (SHIPPED / "model.int8.onnx").stat().st_size < 30_000_000
    assert config["drift"]["min_cosine"] >= 0.99
    card = (SHIPPED / "README.md").read_text()
    assert config["revision"] in card
    assert "make models" in card


# Cosines of the float32 model by sentence-transformers, of each sentence with the first.
REFERENCE = {
    "A man is eating food.": 1.0,
    "A man is eating a piece of bread.": 0.7553,
    "The girl is carrying a baby.": -0.1050,
    "Someone in a gorilla costume is playing a set of drums.": 0.0630,
    "A cheetah is running behind its prey.": 0.1419,
}


def test_the_shipped_model_orders_sentences_as_the_float_model_does(encoder: OnnxEncoder) -> None:
    vectors = encoder.encode_passages(list(REFERENCE))
    assert np.allclose(vectors @ vectors[0], list(REFERENCE.values()), atol=0.02)


def test_the_split_text_is_seen_whole_by_the_shipped_model(encoder: OnnxEncoder) -> None:
    prose = " ".join(f"Sentence {n} tells, plainly and at some length, of re-tokenisation." for n in range(200))
    text = f"{prose}\n\n{'Слово за словом. ' * 200}\n\n{'x=1;' * 400}"
    document = Document(id="a", source="a", title="A guide to everything", text=text, sha256="")
    encoder.encode_passages([embedding_text(passage) for passage in split(document, encoder)])
    assert encoder.cut == 0


def broken(tmp_path: Path, name: str, content: bytes | None) -> Path:
    directory = tmp_path / "model"
    shutil.copytree(SHIPPED, directory)
    if content is None:
        (directory / name).unlink()
    else:
        (directory / name).write_bytes(content)
    return directory


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.int8.onnx"])
@pytest.mark.parametrize("content", [None, b"", b"{}", b"[1]"])
def test_a_damaged_model_directory_is_named_with_a_remedy(tmp_path: Path, name: str, content: bytes | None) -> None:
    with pytest.raises(EncodeError, match=str(tmp_path)) as caught:
        OnnxEncoder.open(broken(tmp_path, name, content))
    assert "make models" in caught.value.hint


def test_a_tokenizer_file_that_cuts_by_itself_does_not_cut_silently(tmp_path: Path, encoder: OnnxEncoder) -> None:
    tokenizer = json.loads((SHIPPED / "tokenizer.json").read_text())
    tokenizer["truncation"] = {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    directory = broken(tmp_path, "tokenizer.json", json.dumps(tokenizer).encode())
    text = ["a sentence that is longer than eight tokens are, by far"]
    assert np.allclose(OnnxEncoder.open(directory).encode_passages(text), encoder.encode_passages(text), atol=1e-5)


def test_settings_of_threads_and_batches_do_not_change_the_vectors(encoder: OnnxEncoder) -> None:
    texts = [f"text {n} " * (n % 40 + 1) for n in range(60)]
    other = OnnxEncoder.shipped(OnnxSettings(threads=1, batch_tokens=64))
    assert ((encoder.encode_passages(texts) * other.encode_passages(texts)).sum(axis=1) > 0.9999).all()


@given(st.lists(st.integers(0, 300), max_size=60), st.integers(1, 2000))
def test_one_long_text_never_pads_many_short_ones(lengths: Sequence[int], budget: int) -> None:
    batches = token_batches(lengths, budget)
    assert sorted(position for batch in batches for position in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[position] for position in batch) <= budget


def test_a_zero_vector_gets_a_direction_and_never_becomes_nan() -> None:
    assert unit_rows(np.array([[0, 0], [3, 4]], dtype=np.float32)).tolist() == [
        [1, 0],
        [0.6000000238418579, 0.800000011920929],
    ]


@given(st.text(max_size=100))
def test_approximate_tokens_cover_every_letter(text: str) -> None:
    covered = {position for start, end in approximate_offsets(text) for position in range(start, end)}
    assert covered == {position for position, letter in enumerate(text) if not letter.isspace()}


def test_without_the_extra_the_user_is_told_what_to_install() -> None:
    code = (
        "import sys\n"
        "sys.modules['sentence_transformers'] = None  # as if it were not installed\n"
        "from retrieval.encode.sentence_transformer import *\n"
        "from retrieval.errors import EncodeError\n"
        "try:\n    SentenceTransformerEncoder.open(SentenceTransformerSettings(name='any'))\n"
        "except EncodeError as error:\n    print(error, error.hint)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "extra" in found.stdout
    assert "grounding-gateway[models]" in found.stdout
