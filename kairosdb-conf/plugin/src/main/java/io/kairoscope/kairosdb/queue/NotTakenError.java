package io.kairoscope.kairosdb.queue;

/**
 * A point was not taken, and its sender must be told.
 *
 * <p>An error, since KairosDB's event bus logs whatever exception a subscriber throws and goes on:
 * the request would be answered as if the point were in the queue. Errors it passes on.
 */
final class NotTakenError extends Error {
  private static final long serialVersionUID = 1;

  NotTakenError(String message, Throwable cause) {
    super(message, cause);
  }
}
