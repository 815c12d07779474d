"""YAML as plain data, with the line of every field and what yaml would let pass."""

import re
from typing import Any

import yaml

from kairoscope.errors import UserError
from kairoscope.experiment.problems import Problem, got

UNREADABLE = object()
"""Stands where a value has been reported already."""

_PLAIN_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9_]{0,17})")
# load → steps → step → rate is 4; deeper is no experiment, and aliases cannot explode.
_MAX_DEPTH = 4


def read(text: str, shown: str) -> tuple[dict[str, Any], dict[str, int], list[Problem]]:
    """The file as plain data, the line of every field, and the problems of its form."""
    try:
        loader = yaml.SafeLoader(text)
        walk = _Walk(loader)
        data = walk.mapping(_top_mapping(loader, shown), "", 1)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UserError(
            f"{shown}:{line}: holds a character that YAML does not allow ({text[error.position]!r})"
        ) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        # The parser's context ("while parsing …") names where the construct began.
        context = f" ({error.context})" if error.context else ""
        raise UserError(f"{shown}:{line}: is not YAML: {error.problem}{context}") from None
    except RecursionError:
        raise UserError(f"{shown}: is nested too deeply to be an experiment") from None
    return data, walk.lines, walk.problems


def _top_mapping(loader: yaml.SafeLoader, shown: str) -> yaml.MappingNode:
    node = loader.get_single_node()
    if node is None:
        raise UserError(f"{shown}: is empty; see experiments/laptop.yml for what belongs here")
    if not isinstance(node, yaml.MappingNode):
        found = "a list" if isinstance(node, yaml.SequenceNode) else got(node.value)
        raise UserError(
            f"{shown}:{node.start_mark.line + 1}: must be a mapping "
            f"(name: …, cluster: …, load: …), got {found}"
        )
    return node


class _Walk:
    """YAML nodes to plain data, remembering lines and what yaml would let pass."""

    def __init__(self, loader: yaml.SafeLoader) -> None:
        self._loader = loader
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []

    def mapping(self, node: yaml.MappingNode, prefix: str, depth: int) -> dict[str, Any]:
        """The fields of one mapping; a key given twice or that is no text is a problem."""
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or not key_node.tag.endswith(":str"):
                shown = key_node.value if isinstance(key_node, yaml.ScalarNode) else "a list"
                self.problems.append(
                    Problem(
                        (prefix.rstrip(".") or "(top level)",),
                        f"a field's name must be text, got {shown}; put it in quotes",
                        line,
                    )
                )
                continue
            key = str(key_node.value)
            name = prefix + key
            if key in result:
                self.problems.append(
                    Problem((name,), f"is given twice, first in line {self.lines[name]}", line)
                )
                continue
            self.lines[name] = line
            result[key] = self._value(value_node, name, depth)
        return result

    def _value(self, node: yaml.Node, name: str, depth: int) -> Any:
        if isinstance(node, yaml.ScalarNode):
            if node.tag == "tag:yaml.org,2002:int" and not _PLAIN_INTEGER.fullmatch(node.value):
                # YAML reads 010 as 8 and 2:00 as 120; nobody who writes that in here means it.
                text = f"write it as a plain number of at most 18 digits, got {got(node.value)}"
                self.problems.append(Problem((name,), text))
                return UNREADABLE
            try:
                return self._loader.construct_object(node)
            except yaml.MarkedYAMLError as error:
                self.problems.append(Problem((name,), f"cannot be read: {error.problem}"))
            except ValueError as error:  # a date such as 2026-99-99
                self.problems.append(Problem((name,), f"cannot be read: {error}"))
            return UNREADABLE
        if depth >= _MAX_DEPTH:
            self.problems.append(Problem((name,), "is nested too deeply to be an experiment"))
            return UNREADABLE
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, f"{name}.", depth + 1)
        items = []
        for number, item in enumerate(node.value, 1):
            self.lines[f"{name}[{number}]"] = item.start_mark.line + 1
            items.append(self._value(item, f"{name}[{number}]", depth + 1))
        return items
