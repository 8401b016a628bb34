"""Which column holds the ids: a wrong one gives a wrong graph, so what is not clear is refused."""

from __future__ import annotations

import numpy as np
import pytest

from megae.io import adjacency, edges_of, large, open_document, read_table
from megae.io.errors import InputError

N = 120
PATH = [(i, i + 1) for i in range(1, N)]


def read(folder, nodes: str, edges: str, **options):
    (folder / "n.csv").write_text(nodes)
    (folder / "e.csv").write_text(edges)
    return read_table(folder / "n.csv", edges=edges_of(open_document(folder / "e.csv")), **options)


def table(header: str, rows) -> str:
    return header + "\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n"


def shuffled() -> list[int]:
    return np.random.default_rng(0).permutation(np.arange(1, N + 1)).tolist()


@pytest.fixture(params=["small", "large"], autouse=True)
def size(request, monkeypatch):
    monkeypatch.setattr(large, "LARGE", 0 if request.param == "large" else 1 << 40)


@pytest.mark.parametrize("header", ["state,county_id,income", "state,fips,income"])
@pytest.mark.parametrize("first", [0, 1])
def test_ids_in_shuffled_rows_are_found_in_any_column(tmp_path, header, first):
    keys = [key - 1 + first for key in shuffled()]
    nodes = table(header, [("AB"[key % 2], key, f"{key}.5") for key in keys])
    edges = table("source,target", [(u - 1 + first, v - 1 + first) for u, v in PATH])
    found = read(tmp_path, nodes, edges)
    assert found.id_source == f"column {header.split(',')[1]!r}"
    A, _ = adjacency(edges_of(open_document(tmp_path / "e.csv")), found.ids, tmp_path / "n.csv")
    place = {key: i for i, key in enumerate(keys)}
    assert all(A[place[u - 1 + first], place[v - 1 + first]] == 1 for u, v in PATH)


@pytest.mark.parametrize("header", ["county_id,state,income", "state,county_id,income", "state,fips,income"])
@pytest.mark.parametrize("last", [N, N - 1], ids=["all-nodes", "last-unmentioned"])
def test_one_id_twice_is_refused_and_not_replaced_by_row_numbers(tmp_path, header, last):
    keys = sorted(shuffled())
    keys[56] = 8
    place = header.split(",").index("state")
    rows = [[key, f"{i}.5"] for i, key in enumerate(keys)]
    for row in rows:
        row.insert(place, "A")
    edges = table("source,target", [(u, v) for u, v in PATH if v <= last])
    with pytest.raises(InputError, match=r"n.csv line 58: the id '8' occurs twice.*first at .*n.csv line 9.*--id '#'"):
        read(tmp_path, table(header, rows), edges)
    assert read(tmp_path, table(header, rows), edges, id_column="#").ids[:2] == ["0", "1"]


def test_ids_of_several_rows_each_are_refused(tmp_path):
    rows = [(key, year, f"{key}.{year}") for year in range(3) for key in range(1, N + 1)]
    with pytest.raises(InputError, match=r"the id '1' occurs twice \(column 'county'\)"):
        read(tmp_path, table("county,year,income", rows), table("s,t", PATH))


def test_row_numbers_are_taken_where_they_match_best(tmp_path):
    rng = np.random.default_rng(0)
    rows = list(zip(rng.integers(18, 80, N), rng.integers(0, 2, N), rng.normal(size=N), strict=True))
    edges = table("s,t", [(u - 1, v - 1) for u, v in PATH])
    assert read(tmp_path, table("age,member,income", rows), edges).id_source == "row numbers"


def test_two_columns_that_match_alike_are_the_users_choice(tmp_path):
    nodes = table("state,fips,code,income", [("A", key, N + 1 - key, f"{key}.5") for key in shuffled()])
    with pytest.raises(InputError, match="refer to column 'fips' or to column 'code'; say which holds the ids by --id"):
        read(tmp_path, nodes, table("s,t", PATH))
    assert read(tmp_path, nodes, table("s,t", PATH), id_column="code").id_column == "code"


def test_a_named_column_that_matches_less_is_not_passed_over_in_silence(tmp_path):
    nodes = table("id,rank,income", [(i + 1, i, f"{i}.5") for i in range(N)])
    edges = table("s,t", [(u - 1, v - 1) for u, v in PATH])
    with pytest.raises(InputError, match="column 'rank' or to column 'id'"):
        read(tmp_path, nodes, edges)


@pytest.mark.parametrize(("ids", "end"), [(["1001", "1003"], "01001"), (["01001", "01003"], "1001")])
def test_lost_leading_zeros_are_spoken_of(tmp_path, ids, end):
    nodes = table("name,fips,x", [("Autauga", ids[0], 1.5), ("Baldwin", ids[1], "")])
    other = "01003" if end.startswith("0") else "1003"
    found = read(tmp_path, nodes, f"s,t\n{end},{other}\n")
    assert found.id_source == "column 'fips'"
    edges = edges_of(open_document(tmp_path / "e.csv"))
    with pytest.raises(InputError, match=rf"line 2: node '{end}' is not in n.csv, but '{ids[0]}' is: leading zeros"):
        adjacency(edges, found.ids, "n.csv")


def test_a_duplicate_is_blamed_on_its_own_column(tmp_path):
    keys = [f"{1000 + i:05d}" for i in range(20)]
    keys[5] = keys[3]
    nodes = table("fips,name,x", [(key, f"county {i}", 1.5) for i, key in enumerate(keys)])
    edges = table("s,t", [(f"{1000 + i:05d}", f"{1001 + i:05d}") for i in range(19)])
    with pytest.raises(InputError, match=r"line 7: the id '01003' occurs twice \(column 'fips'\), first at .* line 5"):
        read(tmp_path, nodes, edges)
