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
    edges = f"s,t\n{end},{other}\n"
    lost = rf"line 2: node '{end}' is not in column 'fips' of .*n.csv, but '{ids[0]}' is: leading zeros were lost"
    with pytest.raises(InputError, match=lost):
        read(tmp_path, nodes, edges)
    found = read(tmp_path, nodes, edges, id_column="fips")
    with pytest.raises(InputError, match=rf"line 2: node '{end}' is not in n.csv, but '{ids[0]}' is: leading zeros"):
        adjacency(edges_of(open_document(tmp_path / "e.csv")), found.ids, "n.csv")


@pytest.mark.parametrize("header", ["id,income", ",id,income", ",person,income", "income,person"])
@pytest.mark.parametrize(("form", "what"), [("{:04d}", "leading zeros were lost"), ("{}.0", "has '.0' behind whole")])
@pytest.mark.parametrize("first", [0, 1])
def test_row_numbers_do_not_win_over_ids_that_lost_their_form(tmp_path, header, form, what, first):
    names = header.split(",")
    rows = []
    for row, key in enumerate(shuffled()):
        cells = {"": row, "income": f"{row}.5"}
        rows.append([cells.get(name, form.format(key - 1 + first)) for name in names])
    edges = table("source,target", [(u - 1 + first, v - 1 + first) for u, v in PATH])
    column = next(name for name in names if name in ("id", "person"))
    with pytest.raises(InputError, match=rf"e.csv line 2: .* not in column '{column}' .*{what}.*--id '#'"):
        read(tmp_path, table(header, rows), edges)
    if not first:
        assert read(tmp_path, table(header, rows), edges, id_column="#").id_source == "row numbers"


def test_another_column_does_not_win_over_ids_that_lost_their_zeros(tmp_path):
    keys = shuffled()
    nodes = table("id,rank,income", [(f"{key:04d}", i + 1, f"{i}.5") for i, key in enumerate(keys)])
    with pytest.raises(InputError, match=r"not in column 'id' .* leading zeros were lost"):
        read(tmp_path, nodes, table("s,t", PATH))


def test_lost_zeros_that_change_no_edge_are_no_fault(tmp_path):
    nodes = table("id,income", [(f"{i:04d}", f"{i}.5") for i in range(N)])
    edges = table("s,t", [(u - 1, v - 1) for u, v in PATH])
    assert read(tmp_path, nodes, edges).id_source == "row numbers"


@pytest.mark.parametrize("nameless", ["", "Unnamed: 0"])
@pytest.mark.parametrize("name", ["person", "person_id", "id"])
def test_the_index_that_pandas_writes_gives_way_to_a_column_that_fits(tmp_path, nameless, name):
    keys = [key - 1 for key in shuffled()]
    edges = table("s,t", [(u - 1, v - 1) for u, v in PATH])
    rows = [(i, "AB"[key % 2], key, f"{key}.5") for i, key in enumerate(keys)]
    found = read(tmp_path, table(f"{nameless},state,{name},income", rows), edges)
    assert found.id_source == f"column {name!r}"
    assert found.ids == [str(key) for key in keys]


def test_the_index_that_pandas_writes_holds_the_ids_where_no_other_column_does(tmp_path):
    edges = table("s,t", [(u - 1, v - 1) for u, v in PATH])
    found = read(tmp_path, table(",age,income", [(i, i % 7, f"{i}.5") for i in range(N)]), edges)
    assert (found.id_column, [c.name for c in found.fillable]) == ("", ["age", "income"])


def test_the_index_that_pandas_writes_beside_two_columns_that_fit_is_the_users_choice(tmp_path):
    edges = table("s,t", [(u - 1, v - 1) for u, v in PATH])
    rows = [(i, "A", key - 1, N - key, f"{key}.5") for i, key in enumerate(shuffled())]
    with pytest.raises(InputError, match="column 'fips' or to column 'code'; say which holds the ids by --id"):
        read(tmp_path, table(",state,fips,code,income", rows), edges)


def test_the_index_that_pandas_writes_beside_ids_that_nearly_fit_is_the_users_choice(tmp_path):
    edges = table("s,t", [(u - 1, v - 1) for u, v in PATH])
    rows = [(i, key, f"{key}.5") for i, key in enumerate(shuffled())]
    with pytest.raises(InputError, match="column '' or to column 'person'; say which holds the ids by --id"):
        read(tmp_path, table(",person,income", rows), edges)


@pytest.mark.parametrize("end", ["{:04d}", "{}.0"])
def test_edges_that_no_column_fits_are_not_blamed_on_a_column_of_data(tmp_path, end):
    nodes = table("income,visits", [("" if i == 2 else f"{i}.5", i % 5 or "") for i in range(N)])
    edges = table("source,target", [(end.format(u), end.format(u - 1)) for u, _ in PATH])
    first = end.format(1)
    with pytest.raises(InputError, match=rf"line 2: node '{first}' is in no column of .*, but '1' is a row number"):
        read(tmp_path, nodes, edges)
    nodes = table("income,visits,id", [("" if i == 2 else f"{i}.5", i % 5 or "", i) for i in range(N)])
    with pytest.raises(InputError, match=rf"node '{first}' is not in column 'id' of .*, but '1' is"):
        read(tmp_path, nodes, edges)


def test_one_file_for_both_is_refused(tmp_path):
    (tmp_path / "n.csv").write_text("id,x\n1,2\n2,1\n")
    edges = edges_of(open_document(tmp_path / "n.csv"))
    with pytest.raises(InputError, match="given both as table of nodes and as --edges"):
        read_table(tmp_path / "n.csv", edges=edges)


def test_a_duplicate_is_blamed_on_its_own_column(tmp_path):
    keys = [f"{1000 + i:05d}" for i in range(20)]
    keys[5] = keys[3]
    nodes = table("fips,name,x", [(key, f"county {i}", 1.5) for i, key in enumerate(keys)])
    edges = table("s,t", [(f"{1000 + i:05d}", f"{1001 + i:05d}") for i in range(19)])
    with pytest.raises(InputError, match=r"line 7: the id '01003' occurs twice \(column 'fips'\), first at .* line 5"):
        read(tmp_path, nodes, edges)
