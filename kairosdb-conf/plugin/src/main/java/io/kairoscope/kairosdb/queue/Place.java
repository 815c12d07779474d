package io.kairoscope.kairosdb.queue;

import java.util.Comparator;

/**
 * Where a partition is: the host that its writes are sent to, the shard of that host, and its place
 * on the ring, where neighbours have the same other replicas.
 *
 * @param host for comparing and showing only
 */
record Place(String host, int shard, long token) implements Comparable<Place> {
  private static final Comparator<Place> ORDER =
      Comparator.comparing(Place::host).thenComparing(Place::shard).thenComparing(Place::token);

  @Override
  public int compareTo(Place other) {
    return ORDER.compare(this, other);
  }
}
