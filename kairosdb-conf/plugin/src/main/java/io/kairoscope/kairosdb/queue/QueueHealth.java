package io.kairoscope.kairosdb.queue;

import java.util.List;

/**
 * How the queue is, for health checks and for people.
 *
 * @param troubles what is wrong, a sentence each; empty is healthy
 * @param oldestMs age of the oldest point that the store does not have, 0 for none
 * @param diskBytes size of the queue's files
 * @param deadLetters points since the start that the store refused for good
 * @param unreadable records since the start that the file had, but torn
 */
public record QueueHealth(
    List<String> troubles, long oldestMs, long diskBytes, long deadLetters, long unreadable) {
  public boolean healthy() {
    return troubles.isEmpty();
  }
}
