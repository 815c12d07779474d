"""Carbon's two protocols: plaintext, which is lines as KairosDB's telnet, and pickle.

Carbon acknowledges nothing and never says a word: at the end the connection is ended on our side,
and that it then ends its own shows that it has read all; so it is behind each request where
requests have connections of their own.
"""

from __future__ import annotations

from loaders.schedule.due import Group, Schedule
from loaders.schedule.protocols import PICKLE
from loaders.send.encode import Encoder, Prepared, plaintext_text
from loaders.send.pickled import PickleEncoder
from loaders.send.telnet import Connection, Telnet


class OneWay(Connection):
    """To a server that never says a word."""

    async def processed(self) -> None:
        """Until the server has read all that was written, and closed. Raises OSError."""
        self._check()
        assert self.transport is not None
        self.transport.write_eof()
        try:
            await self._said
        except ConnectionResetError:
            if not self.closed:
                raise


class Carbon(Telnet):
    """Sends batches as lines or pickles, over a connection to each node or for each request."""

    kind = OneWay

    def encoder(self, schedule: Schedule, group: Group) -> Prepared:
        """Of lines or of pickles."""
        if schedule.spec.protocol == PICKLE:
            return PickleEncoder(schedule, group)
        return Encoder(schedule, group, plaintext_text)
