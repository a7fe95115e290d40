"""Measuring on other machines through TVM's RPC."""
