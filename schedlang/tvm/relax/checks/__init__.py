"""What values a network's indices and divisors may have: proofs at import, checks in each call."""
