"""From records to figures: means, ranks and tests by hand, gaps and errors named, nothing of the paper mixed in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from show_cases import earlier, experiment, record, row, value

from megae.bench.catalogue import load_experiment, names
from megae.bench.protocol import PROTOCOL, pose
from megae.bench.scoring import score
from megae.bench.show import summarise
from megae.bench.show.samples import Column, columns_of
from megae.bench.show.summary import Cell, _ranks
from megae.io.errors import InputError

RMSE = Column("ENZYMES", "mcar", 0.1, "rmse")
CENTRED = Column("ENZYMES", "mcar", 0.1, "accuracy", "centred")
RAW = Column("ENZYMES", "mcar", 0.1, "accuracy", "row-normalised")
THREE = [row("A", "mean"), row("B", "zero"), row("C", "knn", origin="ours", standardize=True)]


def trials(method: str, values: list[float], **more) -> list[dict]:
    return [record(method, seed, figure, **more) for seed, figure in enumerate(values)]


def noisy(method: str, level: float, spread: float, seed: int, n: int = 50, **more) -> list[dict]:
    """Three trials of n pairs each; pairs of all methods share their graphs' difficulty."""
    rng, graphs = np.random.default_rng(seed), np.random.default_rng(99)
    made = []
    for s in range(3):
        pairs = graphs.gamma(4.0, 0.02, n) + level + rng.normal(0, spread, n)
        made.append(record(method, s, float(pairs.mean()), pairs=pairs.tolist(), **more))
    return made


def test_means_standard_deviations_and_ranks_by_hand():
    made = trials("mean", [0.1, 0.2, 0.3]) + trials("zero", [0.4, 0.4, 0.4])
    made += trials("knn", [0.2, 0.2, 0.2], settings={"standardize": True})
    found = summarise(experiment(THREE, [value("A", 0.06)]), made)
    cells = [found.cells[label, RMSE] for label in "ABC"]
    assert [c.mean for c in cells] == pytest.approx([0.2, 0.4, 0.2])
    assert [c.sd for c in cells] == pytest.approx([0.1, 0.0, 0.0])
    assert [c.rank for c in cells] == [1.5, 3.0, 1.5]
    assert [c.verdict for c in cells] == ["best", "level", "best"], "two rows share the best"
    assert found.tested_by == {RMSE: "trial"}, "these records hold no pairs"
    assert cells[1].p == pytest.approx(3 * stats.ttest_rel([0.4] * 3, [0.1, 0.2, 0.3]).pvalue)
    assert [c.paper for c in cells] == [0.06, None, None]
    assert {c.n for c in cells} == {3}


def test_units_are_taken_as_asked():
    made = trials("mean", [0.1, 0.2, 0.3], ours=7.0)
    assert summarise(experiment(THREE), made).cells["A", RMSE].mean == pytest.approx(0.2)
    ours = summarise(experiment(THREE), made, "ours")
    assert ours.cells["A", RMSE].mean == pytest.approx(7.0)
    with pytest.raises(InputError, match="unit must be one of paper, ours; got 'metres'"):
        summarise(experiment(THREE), made, "metres")


def test_settings_tell_rows_of_one_method_apart():
    rows = [row("plain", "knn"), row("scaled", "knn", standardize=True)]
    made = trials("knn", [0.1] * 3) + trials("knn", [0.2] * 3, settings={"standardize": True})
    found = summarise(experiment(rows), made)
    assert (found.cells["plain", RMSE].mean, found.cells["scaled", RMSE].mean) == pytest.approx((0.1, 0.2))
    quick = summarise(
        experiment(rows), trials("knn", [0.3] * 3, settings={"max_donors": 9}), settings={"max_donors": 9}
    )
    assert quick.cells["plain", RMSE].mean == pytest.approx(0.3)
    assert quick.cells["scaled", RMSE].state == "not run"


def test_the_best_is_significant_where_it_is():
    made = noisy("mean", 0.0, 0.002, 1) + noisy("zero", 0.01, 0.002, 2)
    made += noisy("knn", 0.012, 0.002, 3, settings={"standardize": True})
    found = summarise(experiment(THREE), made)
    assert [found.cells[label, RMSE].verdict for label in "ABC"] == ["best", "behind", "behind"]
    assert found.cells["A", RMSE].p is None
    by_seed = {
        m: [r["pairs"]["rmse"]["paper"] for r in made if r["trial"]["method"] == m] for m in ("mean", "zero", "knn")
    }
    raw = {
        m: 4 * np.median([stats.wilcoxon(np.subtract(o, b), alternative="greater").pvalue for o, b in both])
        for m in ("zero", "knn")
        for both in [list(zip(by_seed[m], by_seed["mean"], strict=True))]
    }
    low, high = sorted(raw.values())
    adjusted = {low: 3 * low, high: max(3 * low, 2 * high)}
    assert found.cells["B", RMSE].p == pytest.approx(adjusted[raw["zero"]], rel=1e-9, abs=0)
    assert found.cells["C", RMSE].p == pytest.approx(adjusted[raw["knn"]], rel=1e-9, abs=0)
    assert found.tested_by == {RMSE: "test graph"}


def test_the_best_is_not_significant_where_it_is_luck():
    found = summarise(experiment(THREE[:2]), noisy("mean", 0.0, 0.01, 1) + noisy("zero", 0.0, 0.01, 2))
    verdicts = sorted(found.cells[label, RMSE].verdict for label in "AB")
    assert verdicts == ["best", "level"]
    assert max(found.cells[label, RMSE].p or 0 for label in "AB") > 0.05


def test_few_pairs_leave_the_question_open():
    made = noisy("mean", 0.0, 1e-4, 1, n=4) + noisy("zero", 0.1, 1e-4, 2, n=4)
    found = summarise(experiment(THREE[:2]), made)
    assert found.cells["B", RMSE].verdict == "open"
    assert found.too_few == {RMSE: 4 * 0.5**4}


@pytest.mark.parametrize(
    ("more", "over"), [({"over": "column"}, "column"), ({"ids": [3, 1, 4, 15, 9]}, "named test graph")]
)
def test_columns_and_graphs_with_names_count_once(more, over):
    made = noisy("mean", 0.0, 0.001, 1, n=5, **more) + noisy("zero", 0.01, 0.001, 2, n=5, **more)
    found = summarise(experiment(THREE[:2]), made)
    pairs = {
        m: np.mean([r["pairs"]["rmse"]["paper"] for r in made if r["trial"]["method"] == m], axis=0)
        for m in ("mean", "zero")
    }
    expected = 2 * stats.wilcoxon(pairs["zero"] - pairs["mean"], alternative="greater").pvalue
    assert found.cells["B", RMSE].p == pytest.approx(expected)
    assert found.tested_by == {RMSE: over}


def disagreeing(dataset: str = "PROTEINS_full", n: int = 30, trials: int = 5) -> list[dict]:
    """A is better in the paper's unit and B in ours, on nearly every graph: what the mean does to PROTEINS_full."""
    rng, made = np.random.default_rng(5), []
    for s in range(trials):
        for method, level in (("mean", {"paper": 0.05, "ours": 0.5}), ("zero", {"paper": 0.8, "ours": 0.1})):
            pairs = {unit: (mean * rng.uniform(0.8, 1.2, n)).tolist() for unit, mean in level.items()}
            means = {unit: float(np.mean(errors)) for unit, errors in pairs.items()}
            ids = range(s, s + n)
            made.append(record(method, s, means["paper"], ours=means["ours"], pairs=pairs, ids=ids, dataset=dataset))
    return made


def shown(made: list[dict], unit: str, dataset: str = "PROTEINS_full") -> tuple[str, float | None, dict]:
    """What is made of the row that is not the best in a unit, and what the test was paired over."""
    column = Column(dataset, "mcar", 0.1, "rmse")
    found = summarise(experiment(THREE[:2], datasets=[dataset]), made, unit, trials=1)
    worse = found.cells["B" if unit == "paper" else "A", column]
    assert worse.rank == 2.0
    return worse.verdict, worse.p, found.tested_by


@pytest.mark.parametrize("unit", ["paper", "ours"])
def test_marks_follow_the_order_of_the_unit_that_is_shown(unit):
    made, column = disagreeing(), Column("PROTEINS_full", "mcar", 0.1, "rmse")
    verdict, p, tested_by = shown(made, unit)
    assert (verdict, tested_by) == ("behind", {column: "named test graph"})
    assert p < 1e-6
    assert shown([earlier(r) for r in made], unit)[0] == "behind", "a row sixteen times worse is not level"


def test_earlier_records_are_compared_over_trials_in_the_paper_s_unit_and_over_graphs_in_ours():
    made, column = disagreeing(), Column("PROTEINS_full", "mcar", 0.1, "rmse")
    scores = [[r["scores"]["paper"]["rmse"] for r in made if r["trial"]["method"] == m] for m in ("mean", "zero")]
    old = [earlier(r) for r in made]
    verdict, p, tested_by = shown(old, "paper")
    assert (verdict, tested_by) == ("behind", {column: "trial"})
    assert p == pytest.approx(stats.ttest_rel(*scores).pvalue, rel=1e-9, abs=0)
    assert shown(old, "ours") == shown(made, "ours")
    mixed = [earlier(r) if r["trial"]["seed"] == 3 and r["trial"]["method"] == "zero" else r for r in made]
    assert shown(mixed, "paper")[1:] == (p, {column: "trial"}), "one test for the whole column"


@pytest.mark.parametrize("trials", [1, 2])
def test_too_few_trials_to_compare_leave_the_question_open(trials):
    old = [earlier(r) for r in disagreeing(trials=trials)]
    assert shown(old, "paper") == ("open", None, {})
    assert shown(old, "ours")[0] == "behind", "graphs can be compared within one trial"


def test_pairs_in_our_unit_serve_where_the_units_are_proportional():
    made = noisy("mean", 0.0, 0.002, 1, dataset="FIRSTMM_DB") + noisy("zero", 0.01, 0.002, 2, dataset="FIRSTMM_DB")
    found, old = (shown(records, "paper", "FIRSTMM_DB") for records in (made, [earlier(r) for r in made]))
    assert old[2] == found[2] == {Column("FIRSTMM_DB", "mcar", 0.1, "rmse"): "test graph"}
    assert old[1] == found[1]
    mixed = [earlier(r) if r["trial"]["method"] == "zero" else r for r in made]
    assert shown(mixed, "paper", "FIRSTMM_DB") == found, "one unit on both sides"


def test_rows_of_other_splits_are_not_tested_and_named():
    made = noisy("mean", 0.0, 0.001, 1, n=50) + noisy("zero", 0.01, 0.001, 2, n=49)
    found = summarise(experiment(THREE[:2]), made)
    assert found.cells["B", RMSE].verdict == "open"
    assert "B against A on ENZYMES, mcar, 0.1 missing: seed 0 has 50 pairs" in found.notes[0]


def test_missing_partial_and_failed_rows_are_told_apart():
    rows = [*THREE, row("D", "svd"), row("E", "mice")]
    made = trials("mean", [0.1, 0.2, 0.3]) + trials("knn", [0.3] * 3, settings={"standardize": True})
    made += trials("zero", [0.1, 0.3])
    made += [record("svd", s, error="ValueError: no") for s in range(3)]
    made += [record("mice", 0, 0.5), record("mice", 1, error="KeyError: 'x'"), record("mice", 2, 0.7)]
    found = summarise(experiment(rows), made)
    cells = {label: found.cells[label, RMSE] for label in "ABCDE"}
    assert [c.state for c in cells.values()] == ["ok", "partial", "ok", "error", "partial"]
    assert (cells["B"].n, cells["B"].mean, cells["B"].rank, cells["B"].verdict) == (2, pytest.approx(0.2), None, "")
    assert (cells["E"].n, cells["E"].failed, cells["D"].failed, cells["D"].mean) == (2, 1, 3, None)
    assert [cells[label].rank for label in "AC"] == [1.0, 2.0]
    assert found.errors == [
        "D on ENZYMES, mcar, 0.1 missing, seeds 0, 1, 2: ValueError: no",
        "E on ENZYMES, mcar, 0.1 missing, seed 1: KeyError: 'x'",
    ]
    empty = summarise(experiment(THREE), [])
    assert {c.state for c in empty.cells.values()} == {"not run"}
    assert empty.mean_ranks == {}


def test_a_single_trial_has_no_spread_and_fewer_trials_can_be_asked_for():
    made = [record("mean", 0, 0.1), record("zero", 0, 0.2)]
    assert summarise(experiment(THREE), made).cells["A", RMSE].state == "partial"
    found = summarise(experiment(THREE), made, trials=1)
    assert (found.cells["A", RMSE].state, found.cells["A", RMSE].sd, found.cells["A", RMSE].rank) == ("ok", None, 1.0)
    with pytest.raises(InputError, match="trials must be at least 1"):
        summarise(experiment(THREE), made, trials=0)


def test_more_seeds_than_asked_count_where_all_complete_rows_have_them():
    made = trials("mean", [0.1, 0.1, 0.1, 0.5, 0.9]) + trials("zero", [0.2, 0.2, 0.2, 0.6])
    found = summarise(experiment(THREE[:2]), made)
    assert found.cells["A", RMSE].mean == pytest.approx(0.2)
    assert (found.cells["A", RMSE].n, found.cells["B", RMSE].n) == (4, 4)


def test_of_two_records_of_a_trial_the_one_without_error_counts():
    bad = record("mean", 1, error="MemoryError: ")
    made = trials("mean", [0.1, 0.2, 0.3])
    for order in ([bad, *made], [*made, bad]):
        found = summarise(experiment(THREE), order)
        assert (found.cells["A", RMSE].n, found.errors) == (3, [])


def test_records_of_another_protocol_are_left_out_and_said_so():
    made = trials("mean", [0.1, 0.2, 0.3])
    made[2]["protocol"] = PROTOCOL + 1
    found = summarise(experiment(THREE), made)
    assert found.cells["A", RMSE].n == 2
    assert found.notes[0].startswith("Left out")
    assert found.notes[0].endswith(": 1 of 3 records.")


def test_accuracy_is_better_the_higher_and_compared_over_trials():
    table = experiment(THREE[:2], [value("A", 0.6206, measure="accuracy")], extras={"ENZYMES": ["accuracy"]})
    made = [record("mean", s, 0.1, accuracy=(a, 0.5), extras=["accuracy"]) for s, a in enumerate([0.71, 0.72, 0.74])]
    made += [record("zero", s, 0.1, accuracy=(a, 0.6), extras=["accuracy"]) for s, a in enumerate([0.70, 0.72, 0.71])]
    found = summarise(table, made)
    assert found.columns == [CENTRED, RAW], "the paper's table has no RMSE"
    assert [found.cells[label, CENTRED].rank for label in "AB"] == [1.0, 2.0]
    assert [found.cells[label, RAW].rank for label in "AB"] == [2.0, 1.0]
    expected = stats.ttest_rel([0.71, 0.72, 0.74], [0.70, 0.72, 0.71]).pvalue
    assert found.cells["B", CENTRED].p == pytest.approx(expected)
    assert found.cells["A", CENTRED].paper == found.cells["A", RAW].paper == 0.6206
    assert found.mean_ranks["accuracy"]["A"].rank == 1.0, "centred alone counts"


def test_accuracy_not_asked_for_when_it_ran_was_not_run():
    table = experiment(THREE[:1], [value("A", 0.6, measure="accuracy")], extras={"ENZYMES": ["accuracy"]})
    assert summarise(table, trials("mean", [0.1] * 3)).cells["A", CENTRED].state == "not run"


def test_full_features_stand_apart_whatever_the_rate():
    rows = [*THREE[:2], row("full features", "full")]
    full = value("full features", 0.8, measure="accuracy", rate=None)
    table = experiment(rows, [full], extras={"ENZYMES": ["accuracy"]}, rates=[0.1, 0.5])
    made = [record("full", s, accuracy=(0.8, 0.7), extras=["accuracy"]) for s in range(3)]
    found = summarise(table, made)
    where = Column("ENZYMES", "mcar", None, "accuracy", "centred")
    cell = found.cells["full features", where]
    assert (cell.mean, cell.paper, cell.rank) == (pytest.approx(0.8), 0.8, None)
    assert found.cells["full features", CENTRED].state == "none"
    assert found.cells["full features", CENTRED].paper is None
    assert found.cells["A", where].state == "none"


def test_classifiers_have_no_rmse():
    rows = [row("MEAN", "mean"), row("GCNMF", "gcnmf")]
    found = summarise(experiment(rows, extras={"ENZYMES": ["accuracy"]}), [])
    assert (found.cells["GCNMF", RMSE].state, found.cells["GCNMF", CENTRED].state) == ("none", "not run")


def test_what_records_round_differently_is_a_tie():
    cells = [Cell("all", mean=mean) for mean in (0.50666668, 0.50666666, 0.506)]
    assert _ranks(CENTRED, cells) == [1.5, 1.5, 3.0]


def test_entropy_is_shown_and_not_ranked():
    table = experiment(THREE[:2], extras={"ENZYMES": ["entropy"]})
    made = [
        record(m, s, 0.1, entropy=e, extras=["entropy"]) for m, e in (("mean", -0.2), ("zero", 0.1)) for s in range(3)
    ]
    found = summarise(table, made)
    cell = found.cells["A", Column("ENZYMES", "mcar", 0.1, "entropy_change")]
    assert (cell.mean, cell.rank, cell.verdict) == (pytest.approx(-0.2), None, "")
    assert list(found.mean_ranks) == ["rmse"]


def test_mean_ranks_say_over_how_many_columns():
    table = experiment([*THREE[:2], row("D", "svd")], datasets=["ENZYMES", "QM9"])
    made = trials("mean", [0.1] * 3) + trials("zero", [0.2] * 3) + trials("svd", [0.3] * 3)
    made += trials("mean", [0.5] * 3, dataset="QM9") + trials("zero", [0.4] * 3, dataset="QM9")
    ranks = summarise(table, made).mean_ranks["rmse"]
    assert {label: (r.rank, r.columns, r.of) for label, r in ranks.items()} == {
        "A": (1.5, 2, 2), "B": (1.5, 2, 2), "D": (3.0, 1, 2),
    }  # fmt: skip


def test_ratios_to_the_row_the_experiment_normalises_by():
    made = trials("mean", [0.1, 0.2, 0.3]) + trials("zero", [0.2, 0.1])
    found = summarise(experiment(THREE, normalise_by="A"), made)
    assert found.cells["A", RMSE].ratio == pytest.approx(1.0)
    assert found.cells["B", RMSE].ratio == pytest.approx(0.3 / 0.3), "over the two trials both have"
    assert found.cells["C", RMSE].ratio is None
    assert summarise(experiment(THREE), made).cells["A", RMSE].ratio is None
    without = replace(experiment(THREE, normalise_by="A"), rows=experiment(THREE).rows[1:])
    assert summarise(without, made).cells["B", RMSE].ratio is None, "the row itself may have been left out"


def test_figures_of_the_real_scorer_are_read():
    from megae.datasets import load

    made, expected = [], []
    for seed in range(2):
        task, answers = pose("digits", load("digits")[:30], "mcar", 0.2, seed)
        filled = [np.nan_to_num(g.x.numpy(), nan=0.5) for g in task.test]
        scored = score(filled, answers)
        expected.append(scored["scores"]["paper"]["rmse"])
        made.append(record("zero", seed, 0.0, dataset="digits", rate=0.2) | scored)
        worse = score([np.nan_to_num(g.x.numpy(), nan=40.0) for g in task.test], answers)
        made.append(record("mean", seed, 0.0, dataset="digits", rate=0.2) | worse)
    found = summarise(experiment(THREE[:2], datasets=["digits"], rates=[0.2], trials=2), made)
    column = Column("digits", "mcar", 0.2, "rmse")
    assert found.cells["B", column].mean == pytest.approx(np.mean(expected))
    assert found.cells["A", column].test.trials == 2


@pytest.mark.parametrize("name", names())
def test_every_experiment_of_the_paper_has_its_columns(name):
    table = load_experiment(name)
    if table.kind != "imputation":
        with pytest.raises(InputError, match=f"{name} shows spectra.*no table"):
            summarise(table, [])
        return
    found = summarise(table, [])
    columns = {(c.dataset, c.mechanism, c.rate, c.measure) for c in columns_of(table)}
    printed = {(v.dataset, v.mechanism, v.rate, v.measure) for v in table.values}
    assert printed <= columns
    assert {c[3] for c in columns} == {v.measure for v in table.values}, "another table's figures are not this one's"
    for v in table.values:
        places = [
            c
            for c in found.columns
            if (c.dataset, c.mechanism, c.rate, c.measure) == (v.dataset, v.mechanism, v.rate, v.measure)
        ]
        assert {found.cells[v.row, c].paper for c in places} == {v.value}
