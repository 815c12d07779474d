package io.kairoscope.kairosdb.queue;

/** How much is released at once: points, and bytes of heap that these take, roughly. */
final class Quota {
  private int points;
  private long bytes;

  Quota(int points, long bytes) {
    this.points = points;
    this.bytes = bytes;
  }

  void take(int morePoints, long moreBytes) {
    points -= morePoints;
    bytes -= moreBytes;
  }

  boolean left() {
    return points > 0 && bytes > 0;
  }

  boolean hasBytes() {
    return bytes > 0;
  }
}
