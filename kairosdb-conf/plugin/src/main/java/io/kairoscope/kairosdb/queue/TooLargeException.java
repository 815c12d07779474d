package io.kairoscope.kairosdb.queue;

/** The store refuses a batch for its size alone. */
final class TooLargeException extends Exception {
  private static final long serialVersionUID = 1;

  TooLargeException(Throwable cause) {
    super(cause);
  }
}
