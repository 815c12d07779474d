package io.kairoscope.kairosdb.queue;

import java.util.List;

/**
 * Where a partition is: the nodes that its writes are best sent to, the shard there, and its place
 * on the ring, where neighbours have the same other replicas.
 *
 * @param nodes the replicas first, in the order that the driver prefers; shared by all partitions
 *     of a part of the ring, so that it costs nothing to keep
 */
record Place(List<Node> nodes, int shard, long token) implements Comparable<Place> {
  @Override
  public int compareTo(Place other) {
    int order = Integer.compare(shard, other.shard);
    return order != 0 ? order : Long.compare(token, other.token);
  }
}
