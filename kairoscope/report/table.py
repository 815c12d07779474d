"""A table of text: what most sections show, the same for the HTML page and the Markdown summary."""

from dataclasses import dataclass

Text = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Cells of text under `head`; columns listed in `numeric` are aligned to the right."""

    head: Text
    rows: tuple[Text, ...]
    numeric: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rows)
