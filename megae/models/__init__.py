"""Torch modules in equation order.

======================  =========================================================
``WaveletAutoencoder``  preset ``default``: residual wavelet and perceptron blocks
``PaperAutoencoder``    preset ``paper``: equations 5 to 11 as written
``FilterBank``          a frame as Chebyshev coefficients, for analysis and back
``OutputHead``          raw outputs -> values in range, and the loss that fits
``latent_entropy``      the regulariser L_S
======================  =========================================================
"""

from megae.models.autoencoder import WaveletAutoencoder
from megae.models.entropy import latent_entropy
from megae.models.filters import FilterBank
from megae.models.heads import OutputHead
from megae.models.paper import PaperAutoencoder

__all__ = ["FilterBank", "OutputHead", "PaperAutoencoder", "WaveletAutoencoder", "latent_entropy"]
