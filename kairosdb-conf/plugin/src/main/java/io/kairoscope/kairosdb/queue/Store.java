package io.kairoscope.kairosdb.queue;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletionStage;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;

/**
 * What the writer needs of the store: KairosDB's tables, one attempt at a time. A stage that fails
 * with {@link TooLargeException} asks for less at once.
 */
interface Store {
  /** The partitions that points of a series belong to, one for each row of three weeks. */
  List<Row> rows(Group group);

  /** The partition's key in the store. */
  ByteBuffer key(DataPointsRowKey rowKey);

  /** Where a partition is. */
  Place place(ByteBuffer key);

  /** Writes points as one batch. */
  CompletionStage<?> writePoints(List<Partition> batch);

  /** Writes what queries need to find rows. */
  CompletionStage<?> writeIndex(List<IndexEntry> entries);

  /**
   * Points of one row, before it is known whether the row is new.
   *
   * @param indexTtlS how long the index must have the row; 0 is for ever
   */
  record Row(DataPointsRowKey key, int indexTtlS, List<Point> points) {}

  /**
   * A row that queries must be able to find.
   *
   * @param newMetric whether the metric's name and the time of the row are new, too
   */
  record IndexEntry(DataPointsRowKey rowKey, int ttlS, boolean newMetric) {}
}
