"""All run-time bundles."""

from rich.console import Console

from kairoscope.deploy.building.jars import build_jars
from kairoscope.deploy.building.java import build_java
from kairoscope.deploy.building.loader import build_loader
from kairoscope.deploy.building.tool import alone


def build(
    update_manifest: bool = False,
    *,
    with_java: bool = False,
    jars: bool = True,
    console: Console | None = None,
) -> bool:
    """Build what is not built yet; True if anything was built.

    `with_java` for targets with hosts of their own: the Java run-time too. Without `jars` those of
    KairosDB and Cassandra are left out, for a stack that runs neither.

    With `update_manifest` the committed checksums are written anew instead of checked: for a change
    of version, to be looked at in the diff. `console`: where it says how far it is.

    Raises:
        UserError: something that is needed cannot be fetched, or is not what is pinned.
    """
    with alone(console):
        built_jars = jars and build_jars(update_manifest, console)
        built_java = with_java and build_java(console)
        return build_loader(console) or built_jars or built_java
