package io.kairoscope.kairosdb.queue;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Points of one partition of the store, and all that they have in common. */
final class Partition {
  // What Cassandra counts of a row against its limit, from above: clustering key, time stamps,
  // times to live and flags of the row and of its one cell.
  private static final int ROW_BYTES = 64;

  private final RowKey rowKey;
  private final ByteBuffer key;
  private final Place place;
  private final CompletableFuture<Void> indexed;
  private final List<Point> points;
  private final int bytes;

  /**
   * @param key the row key as the store has it
   * @param place where the store has it
   * @param indexed completes when queries can find the row, and with a {@link DeadException} if
   *     they never will
   */
  Partition(
      RowKey rowKey,
      ByteBuffer key,
      Place place,
      CompletableFuture<Void> indexed,
      List<Point> points) {
    this.rowKey = rowKey;
    this.key = key;
    this.place = place;
    this.indexed = indexed;
    this.points = points;
    int sum = key.remaining();
    for (int i = 0; i < points.size(); i++) {
      sum += bytes(points.get(i));
    }
    bytes = sum;
  }

  RowKey rowKey() {
    return rowKey;
  }

  ByteBuffer key() {
    return key;
  }

  Place place() {
    return place;
  }

  CompletableFuture<Void> indexed() {
    return indexed;
  }

  List<Point> points() {
    return points;
  }

  /** The same partition with some of its points. */
  Partition part(int from, int to) {
    return new Partition(rowKey, key, place, indexed, points.subList(from, to));
  }

  /** Size in a batch, from above. */
  int bytes() {
    return bytes;
  }

  static int bytes(Point point) {
    return ROW_BYTES + point.value().length;
  }
}
