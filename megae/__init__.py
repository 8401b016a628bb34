"""Fill missing node attributes on graphs.

>>> from megae import MEGAEImputer
>>> imputer = MEGAEImputer(random_state=0)

Imputers
    MEGAEImputer, and ``megae.imputers`` for every other method
Graph spectra
    ``megae.spectral``, ``megae.kernels``
PyG
    ``megae.transforms.Impute``
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from megae.imputers.megae import MEGAEImputer

__version__ = "0.1.0"

__all__ = ["MEGAEImputer", "__version__"]


def __getattr__(name: str) -> Any:
    """Load torch only once something asks for an imputer, so that ``megae --help`` answers at once."""
    if name == "MEGAEImputer":
        from megae.imputers.megae import MEGAEImputer

        return MEGAEImputer
    raise AttributeError(f"module 'megae' has no attribute {name!r}")
