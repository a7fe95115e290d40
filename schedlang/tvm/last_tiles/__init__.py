"""Tiles that do not fit, without guards: the last one starts earlier (``tiles``)."""

from schedlang.tvm.last_tiles.dense import with_dense_tiles
from schedlang.tvm.last_tiles.tiles import with_overlapping_tiles

__all__ = ["with_dense_tiles", "with_overlapping_tiles"]
