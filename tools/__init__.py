"""The repository's own machinery: notebooks (refresh, run, check) and mutants. Not installed."""
