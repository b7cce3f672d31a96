"""What fuzzing has found and kept stays held, and a few new inputs of every reader; `make test-slow` fuzzes for an hour."""

from __future__ import annotations

import random

import pytest

from attacks.fuzz import Reader, corpus, tried
from attacks.mutations import mutated
from attacks.readers import READERS

FRESH = 10


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_no_input_breaks_a_reader(reader: Reader) -> None:
    rng = random.Random(7)
    pool = [*reader.seeds()[:4], *(files for _, files in corpus(reader.name))]
    pool += [mutated(rng.choice(pool), pool, rng) for _ in range(FRESH)]
    wrong = [found[1] for files in pool if (found := tried(reader, files)) and found[0]]
    assert not wrong, wrong


def test_a_reader_that_breaks_is_seen() -> None:
    def breaks(folder: object) -> None:
        raise KeyError("x")

    assert tried(Reader("x", breaks, list), {"a": b""}) is not None
