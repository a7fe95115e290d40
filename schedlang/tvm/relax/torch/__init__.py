"""Graphs of ``torch.export`` as Relax modules; torch is imported when one is converted."""
