"""Kinds of worker behind one contract (contract.py). A kind knows nothing of jobs beyond its work order."""
