"""Small models for the backend of ``torch.compile``."""
