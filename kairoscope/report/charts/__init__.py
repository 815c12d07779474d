"""The charts of the report: what each one shows. How they are drawn is in `draw` and `screen`."""
