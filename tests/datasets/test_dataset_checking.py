"""Checks on small sets made here, and the consistency of the catalogue."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dataset_cases import npz_arrays, tu_texts, write_planetoid, write_zip

from megae.datasets import CATALOGUE, check, load, names
from megae.datasets.facts import Counts

PAPER_SETS = [entry for entry in CATALOGUE.values() if entry.paper is not None]


def test_the_paper_has_ten_sets() -> None:
    assert len(PAPER_SETS) == 10
    assert names() == sorted([*(entry.name for entry in PAPER_SETS), "digits"])


@pytest.mark.parametrize("entry", PAPER_SETS, ids=lambda e: e.name)
def test_known_counts_round_to_the_papers(entry) -> None:
    counts, paper = entry.variants[0].counts, entry.paper
    per = 1 if entry.single else counts.graphs
    assert counts.graphs == paper.graphs
    assert (round(counts.nodes / per), round(counts.edges / per)) == (paper.nodes, paper.edges)
    assert counts.features == paper.features
    assert paper.classes in (None, counts.classes)


@pytest.mark.parametrize("entry", PAPER_SETS, ids=lambda e: e.name)
def test_files_have_addresses_and_digests_that_can_be_right(entry) -> None:
    assert entry.official is not None
    for file in (file for variant in entry.variants for file in variant.files):
        assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256, _ in file.sha256)
        assert file.url is None or file.url.endswith(f"/{file.name}")
        assert file.sha256 or not file.pinned


def test_digests_are_all_different() -> None:
    digests = [d for e in PAPER_SETS for v in e.variants for f in v.files for d, _ in f.sha256]
    assert len(digests) == len(set(digests))


def test_absent_is_explained(tmp_path: Path) -> None:
    finding = check(CATALOGUE["FRANKENSTEIN"], tmp_path)
    assert finding.status == "absent"
    assert "put FRANKENSTEIN.zip (from https://" in finding.differences[0]
    assert "megae data get FRANKENSTEIN" in finding.differences[0]


def test_a_planetoid_set_that_lacks_one_file_names_it(tmp_path: Path) -> None:
    write_planetoid(tmp_path / "Cora", "cora")
    (tmp_path / "Cora" / "ind.cora.ty").unlink()
    finding = check(CATALOGUE["Cora"], tmp_path)
    assert finding.status == "absent"
    assert "put ind.cora.ty (from" in finding.differences[0]


def test_frankenstein_in_its_official_layout(tmp_path: Path) -> None:
    texts = {k: v for k, v in tu_texts("FRANKENSTEIN", 780).items() if "node_labels" not in k}
    write_zip(tmp_path / "FRANKENSTEIN" / "FRANKENSTEIN.zip", texts, "FRANKENSTEIN/")
    graphs = load("FRANKENSTEIN", tmp_path)
    assert [tuple(g.x.shape) for g in graphs] == [(3, 780), (2, 780), (1, 780)]
    np.testing.assert_array_equal(graphs[2].x[0].numpy(), (np.arange(780) + 5 * 780) / 4)
    finding = check(CATALOGUE["FRANKENSTEIN"], tmp_path)
    assert finding.status == "wrong"
    assert "FRANKENSTEIN: 3 graphs where 4337 are expected" in finding.problems
    assert "FRANKENSTEIN: 6 nodes where 73283 are expected" in finding.problems
    assert "of no known copy" in finding.files["FRANKENSTEIN.zip"]
    assert "Table 6 says 4,337 graphs, the files hold 3" in finding.differences
    assert "Table 6 says 17 mean nodes, the files hold 2" in finding.differences
    toy = Counts(3, 6, 3, 780, 2)
    right = replace(CATALOGUE["FRANKENSTEIN"].variants[0], whole=toy, counts=toy)
    assert check(replace(CATALOGUE["FRANKENSTEIN"], variants=(right,)), tmp_path).status == "ok"


def test_an_altered_pinned_file_is_wrong_even_if_it_reads(tmp_path: Path) -> None:
    write_planetoid(tmp_path / "Cora", "cora")
    finding = check(CATALOGUE["Cora"], tmp_path)
    assert finding.status == "wrong"
    assert sum("fetch it again" in text for text in finding.problems) == 8
    assert "Cora: 8 nodes where 2708 are expected" in finding.problems
    assert any("the files hold 8 nodes and 5 edges" in text for text in finding.differences)


def test_a_file_that_cannot_be_read_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "AmaPhoto").mkdir()
    np.savez(tmp_path / "AmaPhoto" / "amazon_electronics_photo.npz", **npz_arrays() | {"labels": np.arange(2)})
    finding = check(CATALOGUE["AmaPhoto"], tmp_path)
    assert finding.status == "wrong"
    assert "does not fit 2 labels" in finding.problems[0]


def test_nan_in_the_attributes_is_wrong(tmp_path: Path) -> None:
    texts = tu_texts("FRANKENSTEIN", 780)
    key = "FRANKENSTEIN_node_attributes.txt"
    texts[key] = texts[key].replace("0.25", "nan", 1)
    write_zip(tmp_path / "FRANKENSTEIN" / "FRANKENSTEIN.zip", texts)
    assert "FRANKENSTEIN: attributes hold NaN or infinity" in check(CATALOGUE["FRANKENSTEIN"], tmp_path).problems


def test_the_official_qm9_is_sampled_the_same_way_every_time(tmp_path: Path) -> None:
    many = 1400
    texts = {
        "QM9_A.txt": "".join(f"{2 * k + 1}, {2 * k + 2}\n{2 * k + 2}, {2 * k + 1}\n" for k in range(many)),
        "QM9_graph_indicator.txt": "".join(f"{k + 1}\n{k + 1}\n" for k in range(many)),
        "QM9_graph_attributes.txt": "".join(f"{k}, {2 * k}\n" for k in range(many)),
        "QM9_node_attributes.txt": "".join(f"{k}, 0\n" for k in range(2 * many)),
    }
    write_zip(tmp_path / "QM9" / "QM9.zip", texts, "QM9/")
    first = [int(g.y[0, 0]) for g in load("QM9", tmp_path)]
    assert len(set(first)) == 1290
    assert first != sorted(first)
    assert first == [int(g.y[0, 0]) for g in load("QM9", tmp_path)]


def test_the_sample_is_read_where_both_are_there(tmp_path: Path) -> None:
    write_zip(tmp_path / "QM9" / "QM9.zip", tu_texts("QM9", 5))
    write_zip(tmp_path / "QM9" / "QM9_1290.zip", tu_texts("QM9", 4))
    assert load("QM9", tmp_path)[0].x.shape == (3, 4)


def test_megae_data_that_is_no_folder_is_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MEGAE_DATA", str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError, match=r"MEGAE_DATA names .*gone, which is not a folder"):
        load("Cora")
    assert len(load("digits")) == 1797
