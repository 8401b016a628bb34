"""What the package promises as a package: few hard dependencies, one version, imports one way, no pickle."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import megae

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "megae").rglob("*.py"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

OPTIONAL = (
    "click", "geomloss", "llvmlite", "matplotlib", "networkx", "numba", "optuna", "pandas", "platformdirs", "pooch",
    "pyarrow", "pygsp", "ray", "rich", "safetensors", "typer",
)  # fmt: skip
"""Not needed to import megae and to fit; torch and PyG bring some of it along, but run without."""

FIT = """
    import warnings

    import numpy as np
    import scipy.sparse as sp

    from megae import MEGAEImputer

    warnings.simplefilter("ignore")
    t = np.arange(60) / 60 * 2 * np.pi
    X = np.stack([np.sin(t), np.cos(t), np.sin(2 * t)], axis=1)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    ring = sp.csr_array(np.roll(np.eye(60), 1, axis=1))
    imputer = MEGAEImputer(max_steps=40, hidden=16, random_state=0, device="cpu", n_jobs=1)
    filled = imputer.fit_transform(X, graph=ring)
    from megae.kernels.choice import _automatic

    figures = imputer.diagnostics_
    np.savez(target, X=X, filled=filled, best_step=figures["best_step"], backend=_automatic("cpu").__name__)
"""

HIDE = """
    import sys
    from importlib.machinery import PathFinder

    class Without(PathFinder):
        @classmethod
        def find_spec(cls, name, path=None, target=None):
            if name.partition(".")[0] in hidden:
                return None
            return super().find_spec(name, path, target)

    sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""


def run_python(code: str) -> None:
    """Run code in a fresh interpreter that finds this tree first."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr


def run_fit(target: Path, hidden: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Fit in a fresh interpreter in which the packages ``hidden`` are as good as not installed."""
    lines = [f"hidden, target = {hidden!r}, {str(target)!r}", HIDE, FIT]
    if hidden:
        lines.append("loaded = {m.partition('.')[0] for m in sys.modules} & set(hidden)\nassert not loaded, loaded")
    run_python("\n".join(textwrap.dedent(part) for part in lines))
    with np.load(target, allow_pickle=False) as archive:
        return dict(archive)


def test_fit_needs_only_torch_pyg_numpy_scipy_and_scikit_learn(tmp_path):
    bare = run_fit(tmp_path / "bare.npz", OPTIONAL)
    full = run_fit(tmp_path / "full.npz", ())
    assert bare["backend"] == "megae.kernels.sparse"
    assert full["backend"] == "megae.kernels.cpu"
    assert full["best_step"] > 0, "the network never moved: the fills would agree whatever the filter does"
    holes = np.isnan(bare["X"])
    assert holes.any()
    assert np.isfinite(bare["filled"]).all()
    np.testing.assert_array_equal(bare["filled"][~holes], bare["X"][~holes])
    np.testing.assert_allclose(bare["filled"], full["filled"], atol=2e-3)


def test_import_megae_alone_loads_no_torch():
    run_python("import sys, megae; assert 'torch' not in sys.modules, 'import megae loaded torch'")


def test_there_is_one_version():
    assert PYPROJECT["project"]["version"] == megae.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{megae.__version__}]" in changelog


def test_types_are_shipped():
    assert (ROOT / "megae" / "py.typed").is_file()
    assert "py.typed" in PYPROJECT["tool"]["setuptools"]["package-data"]["megae"]


def test_every_package_folder_is_found_by_setuptools():
    folders = {path.parent for path in SOURCES}
    assert [f.name for f in sorted(folders) if not (f / "__init__.py").is_file()] == []


def requirement_name(requirement: str) -> str:
    """The normalised name in ``Name>=1.0`` or ``name==1.0``."""
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=!~;\[ ]", requirement)[0]).lower()


def test_every_dependency_is_pinned_exactly_and_the_range_admits_the_pin():
    from packaging.requirements import Requirement

    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line.strip() and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", pin) for pin in pins), pins
    version = {requirement_name(pin): pin.partition("==")[2] for pin in pins}
    assert version["torch"] == "2.13.0"
    project, build = PYPROJECT["project"], PYPROJECT["build-system"]
    for wanted in [*project["dependencies"], *project["optional-dependencies"]["dev"], *build["requires"]]:
        requirement = Requirement(wanted)
        assert version[requirement_name(wanted)] in requirement.specifier, wanted


LAYERS = {
    "columns": -1,
    "io": 0, "tables": 0, "kernels": 0,
    "spectral": 1,
    "graphs": 2, "datasets": 2,
    "models": 3, "missingness": 3,
    "training": 4,
    "imputers": 5,
    "transforms": 6, "downstream": 6, "report": 6,
    "bench": 7, "demo": 7,
    "commands": 8,
    "cli": 9,
    "__main__": 10,
}  # fmt: skip
"""A module may import from lower layers and from its own package, never from above or from beside."""


def own_imports(path: Path) -> Iterator[tuple[str, int]]:
    """The parts of megae that a file imports, wherever in the file, and the lines on which it does."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            names = [f"{module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "megae" and len(parts) > 1:
                yield parts[1], node.lineno


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_import_goes_up(path):
    part = path.relative_to(ROOT / "megae").parts[0].removesuffix(".py")
    if part == "__init__":
        return
    assert part in LAYERS, f"give megae.{part} a place in LAYERS"
    for other, line in own_imports(path):
        if other in ("__version__", part):
            continue
        assert other in LAYERS, f"{path.name}:{line} imports megae.{other}, which has no place in LAYERS"
        assert LAYERS[other] < LAYERS[part], f"{path.name}:{line}: megae.{part} must not import megae.{other}"


READER = Path("megae/datasets/planetoid.py")
FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal"}
FORBIDDEN_CALLS = {
    ("torch", "load"), ("torch", "save"), ("pd", "read_pickle"), ("pandas", "read_pickle"),
    ("joblib", "load"), ("joblib", "dump"), ("joblib", "Memory"),
}  # fmt: skip


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_reads_or_writes_pickle(path):
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.partition(".")[0] in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found += [module] if module.partition(".")[0] in FORBIDDEN_MODULES else []
            found += [f"{module}.{a.name}" for a in node.names if (module, a.name) in FORBIDDEN_CALLS]
        elif isinstance(node, ast.Attribute):
            if node.attr == "to_pickle":
                found.append("to_pickle")
            if isinstance(node.value, ast.Name) and (node.value.id, node.attr) in FORBIDDEN_CALLS:
                found.append(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle" and not is_false(node.value):
            found.append("allow_pickle")
    if path.relative_to(ROOT) == READER:
        assert found == ["pickle"]
        assert not pickle_functions_called(path)
    else:
        assert found == []


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def pickle_functions_called(path: Path) -> list[str]:
    """Functions of the pickle module that a file uses; the class Unpickler, to be restricted, is allowed."""
    return [
        node.attr
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "pickle"
        and node.attr != "Unpickler"
    ]
