from __future__ import annotations

import sys

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from megae.io.texts import BLANKS, Texts, count_distinct, first_empty, positions

lists = st.lists(st.text(st.sampled_from("ab\u00e9\n "), max_size=3), max_size=8)


def packed(items: list[str]) -> Texts:
    return Texts.joined([pa.chunked_array([part], type=pa.string()) for part in (items[:2], items[2:])])


@given(lists)
def test_they_are_the_list_they_were_made_of(items):
    texts = packed(items)
    assert list(texts) == items
    assert [texts[i] for i in range(len(texts))] == items
    assert texts[1:3] == items[1:3]


def test_blanks_are_those_of_python():
    assert "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1)))) == BLANKS


@given(st.lists(st.text(st.sampled_from("a\u00e9" + BLANKS), max_size=5)))
def test_stripped_texts_are_those_of_python(items):
    assert list(packed(items).stripped()) == [item.strip() for item in items]


@given(lists, lists, lists)
def test_lists_and_buffers_get_the_same_answers(first, second, ids):
    packed_answer = positions(packed(first), packed(second), ids)
    for found, expected, keys in zip(packed_answer, positions(first, second, ids), (first, second), strict=True):
        assert found.tolist() == expected.tolist()
        assert found.tolist() == [ids.index(key) if key in ids else -1 for key in keys]
    assert count_distinct(packed(first), packed(second)) == count_distinct(first, second)
    assert first_empty(packed(first)) == first_empty(first)
