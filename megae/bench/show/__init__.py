"""The table of an experiment from records of its trials.

:func:`summarise` makes means, ranks and tests; :func:`render` writes them as Markdown, CSV or HTML.
:func:`render_spectra` does that for an experiment that shows spectra.
"""

from __future__ import annotations

from megae.bench.show.render import FORMATS, render
from megae.bench.show.samples import UNITS
from megae.bench.show.spectra import render_spectra
from megae.bench.show.summary import Cell, Summary, summarise

__all__ = ["FORMATS", "UNITS", "Cell", "Summary", "render", "render_spectra", "summarise"]
