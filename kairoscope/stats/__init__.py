"""Statistics, each by its textbook name: pure functions of numbers, that know no room."""
