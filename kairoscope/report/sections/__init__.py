"""What the sections of the report say, as tables of text: the same for the HTML page and the
Markdown summary. The first screen is in `report.first`; how a section looks, in the template of
its name.
"""
