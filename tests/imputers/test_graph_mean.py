import numpy as np
import torch
from imputer_cases import graphs, table

from megae.imputers import GraphMeanImputer, MeanImputer


def test_each_graph_has_its_own_mean():
    imputer = GraphMeanImputer().fit(graphs(4))
    for before, after in zip(graphs(3, seed=20), imputer.transform(graphs(3, seed=20)), strict=True):
        expected = torch.where(before.x.isnan(), before.x.double().nanmean(dim=0).float(), before.x)
        torch.testing.assert_close(after.x, expected, rtol=1e-6, atol=0)


def test_a_graph_that_shows_nothing_of_a_column_gets_the_training_mean():
    imputer = GraphMeanImputer().fit(graphs(4))
    item = graphs(1, seed=7)[0]
    item.x[:, 1] = torch.nan
    out = imputer.transform([item])[0]
    np.testing.assert_allclose(out.x[:, 1], np.full(8, MeanImputer().fit(graphs(4)).mean_[1]), rtol=1e-6)


def test_a_new_table_has_its_own_mean():
    new = table(10, seed=8) + 50
    out = GraphMeanImputer().fit(table()).transform(new)
    np.testing.assert_allclose(out, np.where(np.isnan(new), np.nanmean(new, axis=0), new), rtol=1e-14)
