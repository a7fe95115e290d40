"""The measuring core: reference, inputs, verification, timing."""
