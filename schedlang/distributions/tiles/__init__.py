"""What the tile distributions share: divisors, supports, moves, weights."""
