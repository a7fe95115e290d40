"""Tiles that do not fit, without guards: the last one starts earlier (``tiles``)."""

from schedlang.tvm.codegen.last_tiles.tiles import EARLIER_LAST_TILES, with_earlier_last_tiles

__all__ = ["EARLIER_LAST_TILES", "with_earlier_last_tiles"]
