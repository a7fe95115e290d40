"""The papers' figures and tables, one file for each paper."""
