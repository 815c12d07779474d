package io.kairoscope.kairosdb.door;

import java.io.IOException;

/** The body is no JSON from here on: nothing after it can be understood. */
final class MalformedException extends IOException {
  private static final long serialVersionUID = 1;

  MalformedException(String message) {
    super(message);
  }
}
