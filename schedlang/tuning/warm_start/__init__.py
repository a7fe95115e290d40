"""What a run takes from earlier ones."""
