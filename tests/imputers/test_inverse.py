"""Inv_MLP and Inv_GCN are MEGAE with another decoder: bit for bit, on disk too."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from geometric_cases import error_against_mean, geometric
from imputer_cases import graphs, ring, same_bits, table
from sklearn.base import clone

from megae import MEGAEImputer
from megae.imputers import InvGCNImputer, InvMLPImputer, get_imputer

pytestmark = pytest.mark.filterwarnings("ignore:the (model|graph) does not help")

SMALL = {"max_steps": 8, "hidden": 8, "random_state": 3}
BOTH = pytest.mark.parametrize(("cls", "decoder"), [(InvMLPImputer, "mlp"), (InvGCNImputer, "gcn")])


@BOTH
def test_same_bits_as_megae_with_that_decoder(cls, decoder):
    twin = MEGAEImputer(preset="paper", decoder=decoder, **SMALL)
    own = cls(**SMALL)
    assert same_bits(own.fit_transform(table(), graph=ring()), twin.fit_transform(table(), graph=ring()))
    assert own.config_ == twin.config_
    other = MEGAEImputer(preset="paper", **SMALL)
    assert not same_bits(own.transform(table()), other.fit_transform(table(), graph=ring()))
    many = zip(own.fit(graphs(22)).transform(graphs(3)), twin.fit(graphs(22)).transform(graphs(3)), strict=True)
    assert all(same_bits(a.x, b.x) for a, b in many)


@BOTH
def test_keywords_are_those_of_megae(cls, decoder):
    ours, theirs = inspect.signature(cls).parameters, inspect.signature(MEGAEImputer).parameters
    assert list(ours) == list(theirs)
    changed = {k: p.default for k, p in ours.items() if p.default != theirs[k].default}
    assert changed == {"preset": "paper", "decoder": decoder}
    assert cls().get_params() == MEGAEImputer(preset="paper", decoder=decoder).get_params()
    assert clone(cls(hidden=7)).hidden == 7
    assert repr(cls()) == f"{cls.__name__}()"
    with pytest.raises(TypeError, match="unexpected keyword argument 'width'"):
        cls(width=3)
    with pytest.raises(TypeError, match="positional"):
        cls("paper")


@BOTH
def test_another_decoder_is_refused(cls, decoder):
    with pytest.raises(ValueError, match=f"decoder={decoder!r}, got decoder='adjoint'.*take MEGAEImputer"):
        cls(decoder="adjoint", **SMALL).fit(table(), graph=ring())


@BOTH
def test_round_trip_through_a_file(cls, decoder, tmp_path):
    fitted = cls(**SMALL).fit(table(), graph=ring())
    fitted.save(tmp_path / "model.megae")
    loaded = cls.load(tmp_path / "model.megae")
    assert type(loaded) is cls
    assert loaded.get_params() == fitted.get_params()
    assert same_bits(loaded.transform(table()), fitted.transform(table()))
    assert same_bits(MEGAEImputer.load(tmp_path / "model.megae").transform(table()), fitted.transform(table()))


def test_a_file_of_another_decoder_is_refused(tmp_path):
    InvGCNImputer(**SMALL).fit(table(), graph=ring()).save(tmp_path / "gcn.megae")
    with pytest.raises(ValueError, match="InvMLPImputer is MEGAE with decoder='mlp', got decoder='gcn'"):
        InvMLPImputer.load(tmp_path / "gcn.megae")


@pytest.mark.parametrize("name", ["inv-mlp", "inv-gcn"])
def test_beats_the_mean_where_whole_nodes_miss_a_smooth_signal(name):
    X, A, nodes = geometric()
    imputer = get_imputer(name, max_steps=400, diagnose=False, random_state=0)
    filled = imputer.fit_transform(np.where(nodes[:, None], np.nan, X), graph=A)
    assert error_against_mean(filled, X, nodes) < 0.7
