"""What a run folder says: outcomes, ledger, measurements, and whether the load was sustained."""
