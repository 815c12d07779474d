package io.kairoscope.kairosdb.queue;

/** A point of a new series when too many came: nothing is wrong with it, and it may come later. */
public final class NewSeriesException extends RefusedPointException {
  private static final long serialVersionUID = 1;

  public NewSeriesException(String message) {
    super(message);
  }
}
