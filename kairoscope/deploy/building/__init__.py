"""Build the run-time bundles once, from Maven Central and PyPI, and pin every file by checksum.

`kairosdb-conf/bundles/<name>.sha256` holds what Maven must bring, requirements.lock what pip must,
so that a build today and a build next year are the same files or an error. `run_time` builds all:
`jars`, `java`, `loader`, each by a `tool`.
"""
