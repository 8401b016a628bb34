"""Reports: one self-contained HTML file each, nothing fetched from anywhere.

- :mod:`megae.report.html`: the page, tables, figures.
- :mod:`megae.report.charts`: small SVG charts that follow the page's light or dark theme.
- :mod:`megae.report.pixels`: arrays as inline PNG pictures.
- :mod:`megae.report.demo`: the page of ``megae demo``.
- :mod:`megae.report.impute`: the page of ``megae impute --report``.
- :mod:`megae.report.spectrum`: the plot of ``megae spectrum``.
"""
