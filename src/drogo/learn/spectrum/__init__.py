"""The leading eigenvectors of a representation, learned from transitions."""

from drogo.learn.spectrum.files import load_spectrum as load_spectrum
from drogo.learn.spectrum.fit import fit_spectrum as fit_spectrum
from drogo.learn.spectrum.objectives import (
    ALLO as ALLO,
    GGDO as GGDO,
    SEVERAL as SEVERAL,
    AbstractSeveral as AbstractSeveral,
    SeveralGDO as SeveralGDO,
)
from drogo.learn.spectrum.result import Eigenvectors as Eigenvectors
