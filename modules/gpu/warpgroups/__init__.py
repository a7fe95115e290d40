"""Matrix products of warpgroups: Hopper's wgmma."""
