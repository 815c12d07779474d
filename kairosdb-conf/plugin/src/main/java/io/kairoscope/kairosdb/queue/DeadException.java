package io.kairoscope.kairosdb.queue;

/** The store refuses a row of the index for good, so that no query would find the row's points. */
final class DeadException extends Exception {
  private static final long serialVersionUID = 1;

  DeadException(String reason) {
    super(reason, null, false, false);
  }
}
