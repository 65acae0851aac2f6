"""Every kind of layer goes through the public check."""

import pytest

from wherein.encoders.toy import ToyEncoder
from wherein.errors import InputError, SpecError
from wherein.layers import TiledKind, open_kind
from wherein.layers.contract import check_layer

KINDS = ("global", "patches", "cells", "dense", "thumbs", "local", "proposals", "pyramid", "static-9@0.1")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_layer_keeps_the_contract(kind: str) -> None:
    check_layer(kind, ToyEncoder())


def test_a_kind_whose_rows_are_not_what_it_states_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TiledKind, "width", lambda *_: (3,))
    with pytest.raises(SpecError, match="'global' breaks the contract: it has rows of another shape"):
        check_layer("global", ToyEncoder())


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        pytest.param("globl", r"there is none of that name.*Did you mean 'global'", id="a slip"),
        pytest.param("global:9", "global takes nothing after its name", id="more than the word"),
        pytest.param("local:", "write local, or local:FAMILY", id="a family without a name"),
        pytest.param("detected:deer", "name what to detect, and a detector", id="no detector"),
    ],
)
def test_what_is_no_layer_is_refused_with_the_way_out(kind: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        open_kind(kind)
