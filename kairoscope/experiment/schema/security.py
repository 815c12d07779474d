"""The section `security`: who may talk to the servers."""

from kairoscope.experiment.schema.section import Section, described


class Security(Section):
    """Who may talk to the servers. On everywhere but on this machine's loopback addresses."""

    enabled: bool | None = described(
        "",
        "TLS and passwords between all servers, and HTTPS for KairosDB's REST interface, by a CA "
        "of the target's own.",
        absent="true; on target `local` false, where only this machine's users get at the ports",
        default=None,
    )
    rest_auth: bool | None = described(
        "",
        "A password for KairosDB's REST interface (not for its health check).",
        absent="what `enabled` is",
        default=None,
    )
