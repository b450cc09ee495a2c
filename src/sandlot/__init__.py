"""Sandlot: RL environments for language models. `import sandlot as sl`, or `import sandlot as vf`."""

__version__ = "0.1.0"
