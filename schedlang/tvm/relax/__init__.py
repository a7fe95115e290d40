"""Relax: whole networks in TVM, from a front end's graph to tensor functions that run."""
