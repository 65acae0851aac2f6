"""`patches`: the encoder's patch embeddings, in its compact basis where it has one."""

from __future__ import annotations

from wherein.encoders import Encoded, Encoder
from wherein.layers import TiledKind
from wherein.store.piece import Rows
from wherein.values.region import Box


class PatchRows(TiledKind):
    """One grid of patches for each view of the image, as int8."""

    word = "patches"
    summary = "what each place of the image shows, a grid of patch embeddings"
    dtype = "int8"

    def width(self, encoder: Encoder) -> tuple[int, ...] | None:
        """(gh, gw, c): c numbers of the compact basis, or all d."""
        if encoder.grid_hw is None:
            return None
        return (*encoder.grid_hw, encoder.dim if encoder.patch_basis is None else encoder.patch_basis.shape[1])

    def rows(self, encoded: Encoded, boxes: tuple[Box | None, ...], encoder: Encoder) -> Rows:
        """The patches in the compact basis."""
        patches = encoded.patches
        if patches is not None and encoder.patch_basis is not None:
            patches = patches @ encoder.patch_basis
        return Rows(self.stored(patches, encoder), boxes)
