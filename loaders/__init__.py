"""The sensor emulator: what a loader host needs, and nothing that deploys or judges."""
