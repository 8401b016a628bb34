"""Ways for cells to go missing: each takes a table and a rate and returns a boolean mask of new holes.

By chance alone
    :func:`mcar`: cells, :func:`whole_node`: whole rows
By what stays observed
    :func:`mar`: other columns drive the holes, or, with a single column, the degree of the node
By what is hidden
    :func:`mnar`: the value itself drives its hole, gradually (self-masking) or in one step (quantile)

``MECHANISMS`` maps the name of a mechanism to its function. What they share:

- The table is an ndarray, DataFrame, torch tensor or scipy sparse matrix of shape (N, D), and is not altered. Where
  values matter, categories count as their codes.
- NaN are old holes. They are never part of the mask, and the rate is over observed cells.
- Cells (rows, for :func:`whole_node`) are drawn one by one. So the rate holds in expectation, and what comes out
  scatters around it as a binomial count does, or less. On few rows a column may lose all its cells.
- The same integer ``random_state`` gives the same mask on every platform, bit for bit; :mod:`megae.missingness.exact`
  says how. A numpy ``Generator`` or ``RandomState`` is drawn from and moves on; None takes fresh entropy. Global
  random state is neither read nor written.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from megae.missingness.at_random import mar
from megae.missingness.completely_at_random import mcar
from megae.missingness.not_at_random import mnar
from megae.missingness.whole_nodes import whole_node

MECHANISMS: dict[str, Callable[..., np.ndarray]] = {"mcar": mcar, "mar": mar, "mnar": mnar, "whole-node": whole_node}

__all__ = ["MECHANISMS", "mar", "mcar", "mnar", "whole_node"]
