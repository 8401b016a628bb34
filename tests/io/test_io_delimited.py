from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from megae.io.delimited import DelimitedFile, quote, unquote, write_delimited
from megae.io.document import Fill, Flag, OutColumn
from megae.io.errors import InputError


def read(tmp_path, data: bytes, name: str = "t.csv") -> DelimitedFile:
    path = tmp_path / name
    path.write_bytes(data)
    return DelimitedFile(path, "\t" if name.endswith(".tsv") else None)


def rewritten(tmp_path, table: DelimitedFile, fills=(), flags=()) -> bytes:
    out = tmp_path / "out"
    table.write_filled(out, list(fills), list(flags))
    return out.read_bytes()


ODD_FILES = [
    b"a,b\n1,2\n",
    b"a,b\r\n1,\r\n,2",
    b"\xef\xbb\xbfa,b\n1,2\n",
    b'id,"a ""q"" b"\n"x,\ny",1.50\n\n  \nz,"2"\n',
    b"\n\na;b\n1;2,5\n",
    b"a\tb\n1\t2\r3\t4\n",
    'näme,größe\n"ü",1\n'.encode(),
    b'a,b\nx"y,1\n" z" ,2\n',
    b'a,b\n1,"2"\n3,\n"",""',
    "a,b\n\u2028x,\x0b1\n".encode(),
]


@pytest.mark.parametrize("data", ODD_FILES)
def test_untouched_file_is_written_byte_for_byte(tmp_path, data):
    assert rewritten(tmp_path, read(tmp_path, data)) == data


cells = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(2, 4).flatmap(lambda w: st.lists(st.lists(cells, min_size=w, max_size=w), max_size=5)),
    delimiter=st.sampled_from([",", "\t"]),
    style=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_cells_agree_with_the_csv_module(tmp_path, rows, delimiter, style, end):
    width = len(rows[0]) if rows else 2
    buffer = io.StringIO(newline="")
    if style == csv.QUOTE_MINIMAL:
        end = "\r\n"  # with another ending the csv module leaves \r or \n inside a cell unquoted
    writer = csv.writer(buffer, delimiter=delimiter, quoting=style, lineterminator=end)
    writer.writerow([f"c{j}" for j in range(width)])
    writer.writerows(rows)
    data = buffer.getvalue().encode()
    table = read(tmp_path, data, "t.tsv" if delimiter == "\t" else "t.csv")
    found = [list(row) for row in zip(*[c.cells for c in table.raw_columns()], strict=True)]
    assert found == rows
    assert rewritten(tmp_path, table) == data


def test_only_the_filled_cells_change(tmp_path):
    table = read(tmp_path, b'\xef\xbb\xbfid,a,"b c"\r\n"x, y",1.50,NA\r\n\r\nz,,"0010"\r\n')
    fills = [Fill("a", np.array([1]), [2.5], ["2.5"]), Fill("b c", np.array([0]), [7], ["7"])]
    flags = [Flag("a_imputed", np.array([False, True]))]
    expected = b'\xef\xbb\xbfid,a,"b c",a_imputed\r\n"x, y",1.50,7,False\r\n\r\nz,2.5,"0010",True\r\n'
    assert rewritten(tmp_path, table, fills, flags) == expected


def test_line_numbers_count_lines_inside_quotes_and_blank_ones(tmp_path):
    table = read(tmp_path, b'a,b\n"x\ny",1\n\nz,2\n')
    assert table.where(0).endswith("line 2")
    assert table.where(1).endswith("line 5")


def test_blank_lines_are_holes_in_a_table_of_one_column(tmp_path):
    assert read(tmp_path, b"a\n1\n\n3\n").raw_columns()[0].cells == ["1", "", "3"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a,b\n1,2\n1,2,3\n", r"line 3: 3 cells.*2 columns"),
        (b"a,b\n1\n", r"line 2: 1 cells"),
        (b'a,b\n1,2\n"x,2\n', r"line 3: .*not closed"),
        (b'a,b\n"x"y,2\n', r"line 2: .*closing quote"),
        (b"a,a\n1,2\n", r"two columns are named 'a'"),
        (b"  \n\n", r"is empty"),
        (b"a,b\n\xff,1\n", r"line 2: not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), r"UTF-8"),
    ],
)
def test_bad_files_are_refused_with_their_place(tmp_path, data, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, data)


@given(cells, st.sampled_from([",", "\t", ";"]))
def test_quote_and_unquote_are_inverse(text, delimiter):
    raw = quote(text, delimiter)
    assert unquote(raw) == text


def test_new_file_reads_back(tmp_path):
    path = tmp_path / "n.csv"
    columns = [
        OutColumn("id", "kept", ["a", "b,c"], ["a", "b,c"]),
        OutColumn("v", "float", [0.1, None]),
        OutColumn("k", "int", [1, 2]),
    ]
    write_delimited(path, columns, ",")
    assert path.read_text() == 'id,v,k\na,0.1,1\n"b,c",,2\n'
    write_delimited(path, [OutColumn("v", "float", [None, 2.0])], ",")
    assert DelimitedFile(path).raw_columns()[0].cells == ["", "2.0"]
