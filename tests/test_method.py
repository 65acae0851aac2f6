"""Specs of methods: read, printed, and refused with the known words."""

from __future__ import annotations

import pytest

from wherein.errors import SpecError
from wherein.search.method import Method


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param("", Method(), id="nothing said"),
        pytest.param("whole", Method("whole", search="whole"), id="a search alone"),
        pytest.param("toy", Method("toy", encoder="toy"), id="an encoder alone"),
        pytest.param("toy:8+patches", Method("toy:8+patches", encoder="toy:8", search="patches"), id="both"),
        pytest.param("whole~max", Method("whole~max", search="whole", support="max"), id="an option"),
        pytest.param(
            "static-9@0.1~best~crop",
            Method("static-9@0.1~best~crop", None, "static-9@0.1", "best", "crop"),
            id="a grid",
        ),
        pytest.param("onnx:/models/a", Method("onnx:/models/a", encoder="onnx:/models/a"), id="a path"),
    ],
)
def test_a_method_parses_and_prints_as_it_was_written(spec: str, expected: Method) -> None:
    method = Method.parse(spec)
    assert method == expected
    assert str(method) == (spec or "whole")


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        pytest.param("hole", "nothing is called 'hole'.*whole", id="a misspelt search"),
        pytest.param("toy+", "nothing is called ''", id="a plus at the end"),
        pytest.param("whole~most", "no option ~most; known: .*~max", id="an unknown option"),
        pytest.param("static-7", "no grid has 7 cells", id="an unknown grid"),
        pytest.param("bow+asmk", "names two kernels of local features; name one", id="two kernels"),
        pytest.param("static-9+patches", "names two searches; name one", id="two searches"),
        pytest.param("toy+mini", "names two encoders; name one", id="two encoders"),
    ],
)
def test_a_spec_that_means_nothing_says_why(spec: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        Method.parse(spec)
