"""Specs of methods: read, printed, and refused with the known words."""

from __future__ import annotations

import pytest

from wherein.errors import SpecError
from wherein.values.method import Method


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param("", Method(), id="nothing said"),
        pytest.param("whole", Method("whole", search="whole"), id="a search alone"),
        pytest.param("toy", Method("toy", encoder="toy"), id="an encoder alone"),
        pytest.param("toy:8+patches", Method("toy:8+patches", encoder="toy:8", search="patches"), id="both"),
        pytest.param(
            "whole~max", Method(search="whole", chosen=frozenset({("query", "support", "max")})), id="an option"
        ),
        pytest.param(
            "static-9@0.1~best~crop",
            Method(search="static-9@0.1", chosen=frozenset({("search", "cells", "best"), ("search", "fill", "crop")})),
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
        pytest.param("whole~most", "whole has no option ~most; its options: ~mean, ~max", id="an unknown option"),
        pytest.param("static-7", "no grid has 7 cells", id="an unknown grid"),
        pytest.param("bow+asmk", "names two kernels of local features; name one", id="two kernels"),
        pytest.param("static-9+patches", "names two searches; name one", id="two searches"),
        pytest.param("toy+mini", "names two encoders; name one", id="two encoders"),
        pytest.param("whole~learned", "whole has no option ~learned; its options: ~mean", id="another word's option"),
        pytest.param("mini+qe~soft", "qe has no option ~soft; its options: ~alpha, ~average, ~ranked", id="of a step"),
        pytest.param("mini+sp+sp", "names the step sp twice", id="a step twice"),
        pytest.param("mini+zoom~max", "zoom has no option ~max; its options: none", id="a step without options"),
        pytest.param("patchs", "Did you mean 'patches'", id="a slip of the pen"),
    ],
)
def test_a_spec_that_means_nothing_says_why(spec: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        Method.parse(spec)


@pytest.mark.parametrize(
    ("spec", "canonical"),
    [
        pytest.param("static-9~soft", "static-9", id="a default said"),
        pytest.param("static-9~crop~best", "static-9~best~crop", id="options in one order"),
        pytest.param("sp+mini+bow", "mini+bow+sp", id="parts in one order"),
        pytest.param("mini+whole", "mini", id="the usual search"),
        pytest.param("mini~max", "mini~max", id="how examples are pooled"),
        pytest.param("mini+patches~max", "mini+patches~max", id="an option of the query after a search"),
        pytest.param("dba~average+qe~ranked", "dba~average+qe~ranked", id="each its own weighting"),
        pytest.param("", "whole", id="nothing"),
    ],
)
def test_equal_methods_have_one_spelling(spec: str, canonical: str) -> None:
    assert Method.parse(spec).canonical == canonical
    assert Method.parse(canonical).canonical == canonical


def test_a_default_that_is_said_changes_nothing() -> None:
    assert Method.parse("static-9~soft") == Method.parse("static-9")
    assert hash(Method.parse("static-9~soft")) == hash(Method.parse("static-9"))
