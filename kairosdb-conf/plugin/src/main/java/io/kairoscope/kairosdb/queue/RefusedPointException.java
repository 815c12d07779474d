package io.kairoscope.kairosdb.queue;

/** A point that no store can ever hold; the message says why, to its sender. */
public class RefusedPointException extends Exception {
  private static final long serialVersionUID = 1;

  public RefusedPointException(String message) {
    // Without a trace: whoever sends many such points must not have us make one for each.
    super(message, null, false, false);
  }
}
