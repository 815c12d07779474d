package io.kairoscope.kairosdb.queue;

import com.datastax.driver.core.BoundStatement;
import com.datastax.driver.core.PreparedStatement;
import java.nio.ByteBuffer;

/**
 * Inserts of points, with their values as bytes: for each one of its numbers the driver would look
 * a codec up and make a buffer. What is the same in most points of a batch is made once.
 */
final class PointStatements {
  private final PreparedStatement insert;
  private int lastTtl;
  private ByteBuffer ttl;
  private long lastTakenAt;
  private ByteBuffer takenAt;

  PointStatements(PreparedStatement insert) {
    this.insert = insert;
  }

  BoundStatement of(ByteBuffer key, int column, Point point, int ttlS) {
    if (ttl == null || ttlS != lastTtl) {
      lastTtl = ttlS;
      ttl = ByteBuffer.allocate(Integer.BYTES).putInt(0, ttlS);
    }
    if (takenAt == null || point.takenAt() != lastTakenAt) {
      lastTakenAt = point.takenAt();
      takenAt = ByteBuffer.allocate(Long.BYTES).putLong(0, lastTakenAt);
    }
    // The driver reads these by duplicates of its own.
    return new BoundStatement(insert)
        .setBytesUnsafe(0, key)
        .setBytesUnsafe(1, ByteBuffer.allocate(Integer.BYTES).putInt(0, column))
        .setBytesUnsafe(2, ByteBuffer.wrap(point.value()))
        .setBytesUnsafe(3, ttl)
        .setBytesUnsafe(4, takenAt);
  }
}
