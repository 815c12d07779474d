package io.kairoscope.kairosdb.door;

/**
 * Why a point was not taken, to its sender. Without a stack trace, as a request may have a hundred
 * thousand of them.
 */
final class Refusal extends Exception {
  private static final long serialVersionUID = 1;

  Refusal(String message) {
    super(message, null, false, false);
  }
}
