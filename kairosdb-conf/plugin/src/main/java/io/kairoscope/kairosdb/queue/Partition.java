package io.kairoscope.kairosdb.queue;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;

/**
 * Points of one partition of the store, and all that they have in common, which is worked out once.
 *
 * @param key the row key as the store has it
 * @param place where the store has it
 * @param indexed completes when queries can find the row
 */
record Partition(
    DataPointsRowKey rowKey,
    ByteBuffer key,
    Place place,
    CompletableFuture<Void> indexed,
    List<Point> points) {
  // What Cassandra counts of a row against its limit, from above: clustering key, time stamps,
  // times to live and flags of the row and of its one cell.
  private static final int ROW_BYTES = 64;

  /** The same partition with some of its points. */
  Partition part(int from, int to) {
    return new Partition(rowKey, key, place, indexed, points.subList(from, to));
  }

  /** Size in a batch, from above. */
  int bytes() {
    int bytes = key.remaining();
    for (Point point : points) {
      bytes += bytes(point);
    }
    return bytes;
  }

  static int bytes(Point point) {
    return ROW_BYTES + point.value().length;
  }
}
