"""What a socket of the standard library lacks."""

import socket


def exactly(connection: socket.socket, count: int) -> bytes:
    """The next `count` bytes of a connection.

    Raises:
        OSError: it ended or failed before.
    """
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise ConnectionResetError("the other side ended the connection")
        data += more
    return data
