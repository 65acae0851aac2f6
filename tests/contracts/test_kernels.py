"""Every kernel over local features keeps the public contract, and the check itself can fail."""

import numpy as np
import pytest

from wherein import plugins
from wherein.arrays import Floats
from wherein.errors import SpecError
from wherein.kernels.bow import BagOfWords
from wherein.kernels.contract import check_kernel


@pytest.mark.parametrize("name", plugins.table("kernels"))
def test_every_kernel_keeps_the_contract(name: str) -> None:
    check_kernel(name)


def test_a_kernel_that_scores_what_has_no_descriptors_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = BagOfWords.scores

    def generous(self: BagOfWords, descriptors: Floats, worth: Floats | None = None) -> Floats:
        return np.asarray(real(self, descriptors, worth) + np.float32(0.1), np.float32)

    monkeypatch.setattr(BagOfWords, "scores", generous)
    with pytest.raises(SpecError, match="kernel 'bow' breaks the contract: it scores an image without descriptors"):
        check_kernel("bow")
