"""Gnocchi 4: measures by REST, aggregated behind it."""
