"""Facts of every set: files, digests, addresses, counts, what the paper's Tables 6 and 7 say, and traps.

Counts are those of the files, recomputed from them; FRANKENSTEIN's and those of the whole QM9 are the published ones.
"""

from __future__ import annotations

from megae.datasets.facts import Counts, Entry, File, PaperCounts, Variant

__all__ = ["CATALOGUE", "PAPER_SIZES"]

PAPER_SIZES = (10, 3848)
"""The sizes between which the paper's appendix says the graphs of Table 6 lie."""

_TU = "https://www.chrsmrrs.com/graphkerneldatasets"
_PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
_AMAZON = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")

_REPACKED = "a repacked copy: same text files, tidy member names"
_MIRROR = "the copy in bknyaz/graph_nn, made from the official site"
_REPORTED = "the official zip, as recorded by GraphDatasets.jl"


def _tu(name: str, *sha256: tuple[str, str]) -> File:
    return File(f"{name}.zip", f"{_TU}/{name}.zip", sha256)


def _planetoid(name: str, **digests: str) -> tuple[File, ...]:
    return tuple(
        File(
            f"ind.{name}.{part}",
            f"{_PLANETOID}/ind.{name}.{part}",
            ((digests[part.replace(".", "_")], "the official file"),),
            pinned=True,
        )
        for part in _PARTS
    )


def _multi(files: tuple[File, ...], counts: Counts) -> tuple[Variant, ...]:
    return (Variant(files, counts, counts),)


_ENTRIES = (
    Entry(
        "digits",
        "embedded",
        "",
        "1,797 handwritten digits as 8x8 grid graphs, inside scikit-learn",
        _multi((), Counts(1797, 115_008, 201_264, 3, 10, 0.0, 1.0)),
        notes=("Row and column of a pixel are attributes, so two of three columns are the same in every graph.",),
        differences=("Not a set of the paper.",),
    ),
    Entry(
        "ENZYMES",
        "tu",
        "ENZYMES",
        "600 proteins, nodes are secondary structure elements, six enzyme classes",
        _multi(
            (
                _tu(
                    "ENZYMES",
                    ("c23466eb026aab05aeb0a29155fae40384203a9570c69d6b2a0cf6f9fb72f6be", _REPACKED),
                    ("0ca7125d7978788346fc6ba5c3cc643b6122153b304220c2230bcb09f99f8ffb", _MIRROR),
                    ("13d832eb6ffa084192daf6e5750250028a18437ee692c38d29a10cd60e18aaf4", _REPORTED),
                ),
            ),
            Counts(600, 19_580, 37_282, 18, 6, -213.0, 761.7),
        ),
        PaperCounts("Table 6", 600, 33, 62, 18),
        notes=(
            "18 attributes; loaders that append the 3 node labels one-hot get 21.",
            "Columns 8 and 17 (from 0) are identical, 2 and 4 correlate above 0.99; 993 attribute rows repeat.",
            "106 isolated nodes.",
        ),
    ),
    Entry(
        "PROTEINS_full",
        "tu",
        "PROTEINS_full",
        "1,113 proteins, enzymes or not",
        _multi(
            (
                _tu(
                    "PROTEINS_full",
                    ("abcf0d92764e7f2cc43c4bcf0abb02f7a456f8b774944479b2a48790d4e3e087", _REPACKED),
                    ("4f10e61e9b831ae3af8379bfd3559468f36119bf8d069cd5a9a5ad9a4ef9dd0d", _MIRROR),
                ),
            ),
            Counts(1113, 43_471, 81_044, 29, 2, -538.0, 7878.0),
        ),
        PaperCounts("Table 6", 1113, 39, 73, 29),
        notes=(
            "Columns 21-28 (from 0) are constant within every graph, so a per-graph mean recovers them exactly.",
            "Column 2 is column 1 minus column 0 plus 1; columns 11 and 20 are identical.",
            "Columns 0, 1, 21, 25 and 27 carry 99.9 % of the variance: an RMSE on unscaled data measures only those.",
            "5 isolated nodes.",
        ),
    ),
    Entry(
        "QM9",
        "tu",
        "QM9",
        "1,290 small molecules, 15 or 19 regression targets, no classes",
        (
            Variant(
                (
                    File(
                        "QM9_1290.zip",
                        None,
                        (
                            (
                                "329018507be73a4f6e28404de05bd90d9465950b9366ad4dbece52ec30a85bea",
                                "a sample of 1,290 molecules derived from the original geometries",
                            ),
                        ),
                        pinned=True,
                    ),
                ),
                Counts(1290, 23_259, 24_018, 16, None, -8.589, 9.0),
                Counts(1290, 23_259, 24_018, 16, None, -8.589, 9.0),
            ),
            Variant(
                (_tu("QM9", ("fd1e631ba58bc35cb11f67e0184e85237423e34c53511a5720fbf189e074a251", _REPORTED)),),
                Counts(129_433, features=16),
                Counts(1290, features=16),
                sample=1290,
            ),
        ),
        PaperCounts("Table 6", 1290, 18, 19, 16),
        notes=(
            "No graph labels: y (1, 15) holds regression targets (19 in the official zip).",
            "QM9_1290.zip is derived: attributes and bonds were recomputed from the published geometries.",
            "From the official QM9.zip (129,433 graphs) 1,290 are drawn with a fixed seed.",
            "13 of the 16 columns are discrete and columns 0-5 determine each other.",
        ),
        differences=(
            "Which 1,290 molecules the paper took is not known, so only the sizes can agree, not the graphs.",
        ),
    ),
    Entry(
        "Synthie",
        "tu",
        "Synthie",
        "400 synthetic graphs, four classes",
        _multi(
            (
                _tu(
                    "Synthie",
                    ("210c4e1871ad8d1ed547eceb3297d4b365496454846ca139fb95c0690c253696", _REPACKED),
                    ("9c153f6840c94d092efbc67511befe19cec7b8ebb88f6c178b9e0f612f77afbc", _MIRROR),
                    ("c5bada5ffe42b4a901d50e75f10c3f969fb962f94acaab0265f46097496154d5", _REPORTED),
                ),
            ),
            Counts(400, 38_000, 69_171, 15, 4, -23.46, 25.92),
        ),
        PaperCounts("Table 6", 400, 95, 173, 15),
        notes=(
            "Synthie_A.txt repeats lines (161,744, of which 138,342 differ): every edge counts once here.",
            "24,185 of 38,000 attribute rows repeat an earlier one, so a nearest-row lookup can recover exact values.",
            "1,361 isolated nodes.",
        ),
        differences=("The paper's edges agree once repeated lines are dropped; with them the mean would be 202.",),
    ),
    Entry(
        "FRANKENSTEIN",
        "tu",
        "FRANKENSTEIN",
        "4,337 molecules whose nodes carry images of digits, two classes",
        _multi((_tu("FRANKENSTEIN"),), Counts(4337, 73_283, 77_534, 780, 2)),
        PaperCounts("Table 6", 4337, 17, 18, 780),
        notes=(
            "No digest of the zip is known; a download is accepted on its counts.",
            "Its attribute file is 161 MB of text; a file of that size took 40 s and 3 GB of memory to read.",
            "Copies with 2,448 graphs are a subset and are refused.",
        ),
    ),
    Entry(
        "FIRSTMM_DB",
        "tu",
        "FIRSTMM_DB",
        "41 point clouds of objects, eleven classes",
        _multi(
            (
                _tu(
                    "FIRSTMM_DB",
                    ("ee0950834abb62fab17c84e61d3af38318557d376f0481a78dc201e45cc6405f", _REPACKED),
                    ("3d8f77e94155c16522fecb3a2cc5dc1726a1ee803e303223a9c2982fb24fa1b8", _MIRROR),
                ),
            ),
            Counts(41, 56_468, 126_024, 1, 11, -1.0, 1.0),
        ),
        PaperCounts("Table 6", 41, 1377, 3074, 1),
        notes=(
            "14 self-loops, dropped and not counted.",
            "One attribute, so other columns cannot help; 21,107 rows repeat an earlier value.",
            "FIRSTMM_DB_normals.txt holds NaN; it is not read.",
        ),
    ),
    Entry(
        "Cora",
        "planetoid",
        "cora",
        "citation network of papers, binary words, seven classes",
        (
            Variant(
                _planetoid(
                    "cora",
                    x="23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
                    tx="b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
                    allx="9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
                    y="94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
                    ty="41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
                    ally="2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
                    graph="58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
                    test_index="297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
                ),
                Counts(1, 2708, 5278, 1433, 7, 0.0, 1.0),
                Counts(1, 2485, 5069, 1433, 7, 0.0, 1.0),
            ),
        ),
        PaperCounts("Table 7", 1, 2485, 5069, 1433, 7),
    ),
    Entry(
        "Citeseer",
        "planetoid",
        "citeseer",
        "citation network of papers, binary words, six classes",
        (
            Variant(
                _planetoid(
                    "citeseer",
                    x="d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
                    tx="539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
                    allx="2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
                    y="8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
                    ty="55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
                    ally="f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
                    graph="d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
                    test_index="2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
                ),
                Counts(1, 3327, 4552, 3703, 6, 0.0, 1.0),
                Counts(1, 2120, 3679, 3703, 6, 0.0, 1.0),
            ),
        ),
        PaperCounts("Table 7", 1, 2120, 3679, 3703, 6),
        notes=(
            "15 nodes of the graph are in no feature file: zero features, label -1. 10 of them are in the largest "
            "component, so leave out nodes with label -1 where labels count.",
            "124 self-loops, dropped and not counted.",
        ),
    ),
    Entry(
        "Pubmed",
        "planetoid",
        "pubmed",
        "citation network of papers on diabetes, TF-IDF words, three classes",
        (
            Variant(
                _planetoid(
                    "pubmed",
                    x="fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
                    tx="4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
                    allx="508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
                    y="e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
                    ty="ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
                    ally="0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
                    graph="5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
                    test_index="b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
                ),
                Counts(1, 19_717, 44_324, 500, 3, 0.0, 1.2633),
                Counts(1, 19_717, 44_324, 500, 3, 0.0, 1.2633),
            ),
        ),
        PaperCounts("Table 7", 1, 19_717, 44_324, 500, 3),
        notes=("3 self-loops, dropped and not counted (44,327 with them).",),
    ),
    Entry(
        "AmaPhoto",
        "npz",
        "",
        "co-purchase network of photo articles, binary words, eight classes",
        (
            Variant(
                (
                    File(
                        "amazon_electronics_photo.npz",
                        f"{_AMAZON}/amazon_electronics_photo.npz",
                        (
                            (
                                "0310b319aa0b6a85ccdbbadad7c0cd9ac75d4709cb3ef08ac1fccc147bd9ded0",
                                "a rewritten copy: same keys, compressed",
                            ),
                            (
                                "bdb1feb8e6ff42ee44024b04479145029c563fd42fc31bff80af20887ba0439a",
                                "the official file, by the Git LFS pointer in D61-IA/FisherGCN",
                            ),
                        ),
                    ),
                ),
                Counts(1, 7650, 119_081, 745, 8, 0.0, 1.0),
                Counts(1, 7487, 119_043, 745, 8, 0.0, 1.0),
            ),
        ),
        PaperCounts("Table 7", 1, 7487, 119_043, 745, 8),
        notes=(
            "The stored adjacency is directed (143,663 entries, one self-loop): read as undirected.",
            "No fixed split.",
        ),
    ),
)

CATALOGUE: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
"""Name to entry: the embedded set, then the paper's in the order of its tables."""
