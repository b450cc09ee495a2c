"""Measurements against other programs, in the same run on the same machine. `python -m benchmarks` lists them."""
