package io.kairoscope.kairosdb.queue;

/** The index of a row is not written for now: what waits for it is given back to the queue. */
final class GivenBackException extends Exception {
  private static final long serialVersionUID = 1;

  GivenBackException() {
    // One for each row, of which nobody wants to know where it was made.
    super("its index is not written for now", null, false, false);
  }
}
