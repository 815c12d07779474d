package io.kairoscope.kairosdb.queue;

/**
 * A point was not taken, though there is nothing wrong with it, and its sender must be told.
 *
 * <p>An error, since KairosDB's event bus logs whatever exception a subscriber throws and goes on:
 * the request would be answered as if the point were in the queue. Errors it passes on.
 */
public final class NotTakenError extends Error {
  private static final long serialVersionUID = 1;

  public NotTakenError(String message, Throwable cause) {
    super(message, cause);
  }
}
