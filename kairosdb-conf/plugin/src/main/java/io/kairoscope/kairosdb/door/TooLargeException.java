package io.kairoscope.kairosdb.door;

import java.io.IOException;

/** A body has more bytes than one request may have. */
final class TooLargeException extends IOException {
  private static final long serialVersionUID = 1;

  TooLargeException(String message) {
    super(message);
  }
}
