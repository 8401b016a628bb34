"""The reader of large files, by Arrow, against its careful twin, which looks at every cell in Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from megae.io import cells, columns, judge, large, read_table, rows, write_table
from megae.io.columns import classify
from megae.io.delimited import DelimitedFile
from megae.io.document import Fill, Flag
from megae.io.errors import InputError
from megae.io.large import LargeFile, open_delimited

SLOW = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

WHOLE = ["0", "-0", "7", "+3", "007", "12345678901234567", "9007199254740993", "9223372036854775807", "-5", " 8 "]
HUGE = ["9223372036854775808", "-9223372036854775808", "123456789012345678901234567890"]
REAL = ["1.50", ".5", "5.", "-0.0", "1e3", "1E-5", "1e-320", "0.1000000000000000055511151231257827", "3.14 ", "2e+08"]
NEVER = ["inf", "-Infinity", "1e999", "+nan", "1e308", "-2.5e200", "1e150"]
TRUTH = ["TRUE", "FALSE", "true", "False", " True"]
TEXT = ["a", "x y", "Zoë", "2024-01-31", "1,5", "0x10", "1_000", "a;b", "n\tn", 'say "hi"', "two\nlines", "c\r\nd", "١"]
MISSING = ["", " ", "NA", "na", " N/A ", "NaN", "null", "None", "?", "#N/A N/A", "-1.#IND", "<na>", "-nan"]
STRANGE = ["0x10", "-0XF", " +4", "+.5", "1e+3", "nan(1)", "  ", " " * 40, "nAn", "1.#QNAN", "12:30", "\x0b1", "1\x1c"]


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A CSV file whose columns are each of some kind, with everything that people and programs do to such files."""
    width, n = draw(st.integers(1, 4)), draw(st.integers(0, 8))
    delimiter = draw(st.sampled_from([",", ";", "\t"]))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    numbers = [WHOLE, WHOLE + HUGE, REAL, REAL + WHOLE, REAL + NEVER, WHOLE + STRANGE, REAL + STRANGE]
    kinds = st.sampled_from([*numbers, TRUTH, TEXT, TEXT + REAL])
    columns = []
    for _ in range(width):
        some = st.sampled_from(draw(kinds))
        some = draw(st.sampled_from([some, some | st.sampled_from(MISSING), some | st.just("")]))
        columns.append(draw(st.lists(some, min_size=n, max_size=n)))
    header = draw(st.lists(st.sampled_from(["id", "x", "a, b", 'q"', "ü", ""]), min_size=width, max_size=width))
    lines = [header, *(list(row) for row in zip(*columns, strict=True))]
    always = draw(st.booleans())
    text = end * draw(st.integers(0, 1))
    for row in lines:
        for j, cell in enumerate(row):
            quoted = always or any(c in cell for c in f'{delimiter}"\r\n') or draw(st.integers(0, 9)) == 0
            text += ('"' + cell.replace('"', '""') + '"' + " " * draw(st.integers(0, 1))) if quoted else cell
            text += delimiter if j < width - 1 else end
        text += draw(st.sampled_from(["", "", "", "", end, "  " + end]))
    if draw(st.booleans()):
        text = text.removesuffix(end)
    return (b"\xef\xbb\xbf" if draw(st.booleans()) else b"") + text.encode()


def plain(series: pd.Series) -> list:
    """Values by their bits, so that -0.0 is not 0.0; holes as None."""
    return [None if pd.isna(v) else v.hex() if isinstance(v, float) else v for v in series.tolist()]


def judged(document, raw, named):
    try:
        column = classify(raw, document.where, named)
    except InputError as error:
        return str(error)
    return column.kind, str(column.series.dtype), plain(column.series), column.words


def everything(document, folder: Path) -> dict:
    """All that the rest of the program can see of a document, its bytes with every third cell replaced included."""
    n, names = document.n_rows, document.header
    fills = []
    for j, name in enumerate(names):
        rows = np.arange(j % 3, n, 3)
        fills.append(Fill(name, rows, list(rows), [f"{j};{r}" if r % 2 else f"{j},{r}" for r in rows]))
    flags = [Flag("was, filled", np.arange(n) % 2 == 0), Flag("f", np.arange(n) % 3 == 0)]
    written = []
    for given_fills, given_flags in ((fills, []), (fills, flags), ([], flags), ([], [])):
        document.write_filled(folder / "out", given_fills, given_flags)
        written.append((folder / "out").read_bytes())
    raw = document.raw_columns()
    return {
        "format": (document.format, document.delimiter, n, names),
        "where": [document.where(i) for i in range(n)],
        "cells": [(c.name, list(c.cells or [])) for c in raw],
        "columns": [[judged(document, c, named) for named in (None, True, False)] for c in raw],
        "written": written,
    }


def attempt(reader, path: Path):
    try:
        return reader(path), None
    except large._Irregular:
        return None, "irregular"
    except InputError as error:
        return None, str(error)


def has_bare_quotes(careful: DelimitedFile) -> bool:
    """Whether a quote stands inside a cell that does not start with one: the only tables left to the careful reader."""
    return any('"' in c and c[0] != '"' for record in [careful._head, *careful._records] for c in record)


def compare(folder: Path, data: bytes) -> None:
    path = folder / "t.csv"
    path.write_bytes(data)
    careful, refusal = attempt(DelimitedFile, path)
    arrow, same = attempt(LargeFile, path)
    if careful is None:
        assert arrow is None
        assert same in (refusal, "irregular")
        return
    if has_bare_quotes(careful):
        assert same == "irregular"
        return
    assert arrow is not None
    assert everything(arrow, folder) == everything(careful, folder)
    assert arrow.data == data


@SLOW
@given(files())
@example(b"id\n1\n\n2\n")
@example(b"a,b\n1,2")
@example(b"a,b\n")
@example(b"a,b\r\n-0,0.5\r\n-0,\r\n")
@example(b'\n\n"a\nb",c\n"x\r\ny",1\n\n  \nz,"2" \n')
def test_both_readers_see_and_write_the_same(tmp_path, data):
    compare(tmp_path, data)


@SLOW
@given(st.text(st.sampled_from('a1.-e,;\t"\n\r \u00e9'), max_size=30))
@example('a,b\n"x,2\n')
@example('a,b\n"x"y,2\n')
@example('a,b\n"""",""\n')
@example("a,b\n1\n")
def test_both_readers_agree_on_what_is_a_table(tmp_path, text):
    compare(tmp_path, text.encode())


def test_blocks_are_joined(tmp_path, monkeypatch):
    monkeypatch.setattr(large, "_BLOCK_ROWS", 3)
    rows = "".join(f'"n, {i}",{i if i % 3 else ""},{i / 7 if i % 2 else "NA"}\r\n' for i in range(20))
    compare(tmp_path, ("id,k,x\r\n" + rows).encode())


@SLOW
@given(data=files(), size=st.integers(1, 40))
@example(b'a,b\nx,1\n"p\n7.5,2",3\ny,4\n', 4)
@example(b'a,b\nx,1\n"p\n7.5,2",3\ny,4\n', 8)
@example(b"a,b\n\n\n1,2\n\n3,4\n\n", 1)
@example(b"a,b\n-0,1\n.5,2\n,+3\n", 4)
@example(b"a,b\n0x10,1\n.5,0x10\n7,2\n", 4)
@example(b"a,b\nx,true\n1,2024-01-31\n,\n", 4)
def test_pieces_are_joined_wherever_they_are_cut(tmp_path, data, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "PIECE", size)
        patch.setattr(cells, "PIECE", size)
        patch.setattr(cells, "PIECE_ROWS", 0)
        compare(tmp_path, data)


@pytest.mark.parametrize("spell", [repr, "{:.17e}".format, "{:.25g}".format, "{:.6f}".format, "{:g}".format])
def test_numbers_are_the_nearest_doubles(tmp_path, spell, monkeypatch):
    for module in (columns, judge):
        monkeypatch.setattr(module, "LARGEST", np.inf)  # what is too large to compute with is read exactly all the same
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 0x7FF << 52, 20_000, dtype=np.int64).view(np.float64)
    usual = np.concatenate([rng.normal(size=20_000), rng.normal(size=20_000) * 10.0 ** rng.integers(-20, 20, 20_000)])
    halves = np.concatenate([2.0**53 + 2 * np.arange(50), 2.0 ** np.arange(60) + 0.5])
    cells = [spell(v) for v in np.concatenate([bits, -usual, halves]).tolist()]
    cells += [f"{2**53 + k}.0" for k in range(99)] + [f"{(2**54 + 2 * k + 1) / 2:.0f}.5e0" for k in range(99)]
    path = tmp_path / "t.csv"
    path.write_text("id,x\n" + "".join(f"n,{c}\n" for c in cells))
    column = LargeFile(path).raw_columns()[1]
    expected = np.array([float(c) for c in cells])
    assert np.array_equal(column.cells.typed.view(np.int64), expected.view(np.int64))
    series = classify(column, str).series
    assert np.array_equal(series.to_numpy().view(np.int64), expected.view(np.int64))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=files())
def test_tables_are_read_and_filled_the_same(tmp_path, data):
    (tmp_path / "t.csv").write_bytes(data)
    seen = []
    for least in (0, 1 << 40):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(large, "LARGE", least)
            try:
                table = read_table(tmp_path / "t.csv")
            except InputError as error:
                seen.append(str(error))
                continue
        fill = {c.name: {"bool": True, "int": 3}.get(c.kind, 0.1) for c in table.fillable}
        filled = table.frame().fillna(fill)
        written = []
        for name in ("o.csv", "o.tsv", "o.parquet"):
            write_table(tmp_path / name, table, filled, flag=name != "o.parquet")
            written.append((tmp_path / name).read_bytes())
        seen.append((table.ids, table.id_source, table.holes().tolist(), written))
    assert seen[0] == seen[1]


def test_cells_are_a_sequence(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('id,x\na,1\n"b ""q""",2\nc,3\n')
    cells = LargeFile(path).raw_columns()[0].cells
    expected = ["a", 'b "q"', "c"]
    assert len(cells) == 3
    assert [cells[0], cells[1], cells[-1]] == expected
    assert cells[::-1] == expected[::-1]
    assert cells[1:] == expected[1:]
    assert cells[3:] == []


def test_size_decides_who_reads(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("id,x\na,1\n")
    assert isinstance(open_delimited(path), DelimitedFile)
    monkeypatch.setattr(large, "LARGE", 0)
    assert isinstance(open_delimited(path), LargeFile)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a,b\n1,2\n1,2,3\n", r"line 3: 3 cells.*2 columns"),
        (b'a,b\n1,2\n"x,2\n', r"line 3: .*not closed"),
        (b"a,a\n1,2\n", r"two columns are named 'a'"),
        (b"a,b\n\xff,1\n", r"line 2: not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), r"UTF-8"),
    ],
)
def test_large_files_are_refused_in_the_same_words(tmp_path, monkeypatch, data, message):
    monkeypatch.setattr(large, "LARGE", 0)
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        open_delimited(path)


@pytest.mark.parametrize("data", ["a,b\n1,2\n\u2003\n3,4\n", "a,b\n\ufeff,2\n\ufeff\ufeffx,4\n", "a\n\ufeff\n1\n"])
def test_letters_of_other_alphabets_change_nothing(tmp_path, data):
    compare(tmp_path, data.encode())
