"""What Relax operators compute where TVM's own legalisation is wrong, imprecise or missing."""
