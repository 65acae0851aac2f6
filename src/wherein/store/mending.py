"""The catalogue's repairs: rows that an image has twice, and layers that are given up."""

from __future__ import annotations

from collections.abc import Mapping

from wherein.store.database import Connection


class Mending:
    """What mends the tables; a part of the catalogue."""

    _db: Connection

    def doubled(self, layer: str | None = None) -> dict[int, int]:
        """The images that have their rows several times in a layer, or in any, and how often.

        Earlier versions left such duplicates. They have more rows for the whole image than others have in the layer.
        """
        found = self._db.execute(
            "WITH own AS (SELECT s.layer, r.image, COUNT(*) AS rows FROM shards s JOIN rows r ON r.shard = s.id "
            "WHERE r.box IS NULL AND (?1 IS NULL OR s.layer = ?1) GROUP BY s.layer, r.image), "
            "least AS (SELECT layer, MIN(rows) AS rows FROM own GROUP BY layer) "
            "SELECT own.image, MAX(own.rows / least.rows) FROM own JOIN least ON own.layer = least.layer "
            "WHERE own.rows > least.rows GROUP BY own.image",
            (layer,),
        )
        return dict(found.fetchall())

    def drop_doubles(self, doubled: Mapping[int, int]) -> None:
        """Of the rows that images have several times, keep those that were written last."""
        for image, times in doubled.items():
            layers = dict[str, list[tuple[int, int, str | None]]]()
            found = self._db.execute(
                "SELECT s.layer, r.shard, r.row, r.box FROM rows r JOIN shards s ON s.id = r.shard "
                "WHERE r.image = ? ORDER BY r.shard, r.row",
                (image,),
            )
            for layer, *place in found.fetchall():
                layers.setdefault(layer, []).append((place[0], place[1], place[2]))
            for places in layers.values():
                once, boxes = len(places) // times, [box for _, _, box in places]
                spare = places[:-once] if once and boxes == boxes[:once] * times else []
                self._db.executemany(
                    "DELETE FROM rows WHERE image = ? AND shard = ? AND row = ?",
                    ((image, shard, row) for shard, row, _ in spare),
                )

    def drop_layer(self, layer: str) -> None:
        """Forget every shard and row of a layer."""
        self._db.execute("DELETE FROM shards WHERE layer = ?", (layer,))
