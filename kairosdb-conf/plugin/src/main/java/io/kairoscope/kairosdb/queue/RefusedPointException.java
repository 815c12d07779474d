package io.kairoscope.kairosdb.queue;

/** A point that no store can ever hold; the message says why, to its sender. */
public final class RefusedPointException extends Exception {
  private static final long serialVersionUID = 1;

  public RefusedPointException(String message) {
    super(message);
  }
}
