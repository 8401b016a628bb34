"""The figures of docs/downstream.md are those of the committed record."""

from __future__ import annotations

import json

import pytest

from benchmarks.downstream import CANDIDATES, DOCS, NODES, PREPARED, RECORD, SECTION, WHOLE, section, whole
from megae.downstream import GCN_SETTINGS, GCNClassifier, GraphClassifier


def test_the_page_shows_what_the_record_holds():
    found = SECTION.search(DOCS.read_text(encoding="utf-8"))
    assert found is not None
    assert found[0] == f"{found[1]}{section()}\n{found[2]}"


def test_the_record_covers_every_set_and_preparation_with_five_splits():
    trials = json.loads(RECORD.read_text(encoding="utf-8"))["trials"]
    for dataset, ways in PREPARED.items():
        for how in ways:
            seeds = [t["seed"] for t in trials if (t["dataset"], t["features"]) == (dataset, how)]
            assert sorted(seeds) == [0, 1, 2, 3, 4]
    assert all(0 < t["accuracy"] <= 1 for t in trials)


def test_settings_were_compared_on_validation_alone_and_on_other_splits():
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert record["choice"]
    assert all(t["accuracy"] is None for t in record["choice"])
    assert not {t["seed"] for t in record["choice"]} & {t["seed"] for t in record["trials"]}


def test_candidates_are_settings_that_exist():
    for dataset, candidates in CANDIDATES.items():
        known = set((GCNClassifier if "centred" in PREPARED[dataset] else GraphClassifier)().get_params())
        assert all(set(settings) <= known for settings in candidates.values())
    assert set(GCN_SETTINGS) <= set(CANDIDATES)


def test_every_node_was_measured_with_both_preparations_on_the_same_splits():
    trials = json.loads(WHOLE.read_text(encoding="utf-8"))["trials"]
    seeds = {how: [t["seed"] for t in trials if t["features"] == how] for how in NODES}
    assert len(seeds["centred"]) >= 2
    assert seeds["centred"] == seeds["row-normalised"]


@pytest.mark.data("Citeseer")
def test_the_whole_graph_has_every_node():
    assert [len(graph.x) for graph in whole("Citeseer")] == [3327]
