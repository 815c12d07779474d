package io.kairoscope.kairosdb.queue;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletionStage;

/**
 * What the writer needs of the store: KairosDB's tables, one attempt at a time. What a failure
 * means is for {@link Refusal} to say. Any of it may throw anything.
 */
interface Store {
  /** The partitions that points of a series belong to, one for each row of three weeks. */
  List<Row> rows(Group group);

  /** The partition's key in the store. */
  ByteBuffer key(RowKey rowKey);

  /**
   * Until when the index must have a row that may have points with the default time to live, put by
   * now, s since 1970; Long.MAX_VALUE is for ever.
   */
  long defaultUntilS(RowKey rowKey);

  /** Where a partition is. */
  Place place(ByteBuffer key);

  /**
   * Equal for partitions that the same nodes have, whether these are up or not: the store takes all
   * of them, or none. Asked of what is not taken only.
   */
  Object copies(ByteBuffer key);

  /**
   * Writes points as one batch.
   *
   * @return how many of them were not written as their time to live is over
   */
  CompletionStage<Integer> writePoints(Node node, List<Partition> batch);

  /**
   * Writes what queries need to find rows.
   *
   * @param atMs the write time, so that a late attempt does not end the index before a later one
   */
  CompletionStage<?> writeIndex(Node node, List<IndexEntry> entries, long atMs);

  /** Which tables an entry is written to. */
  Table table(IndexEntry entry);

  /**
   * Writes to tables what is known to be good and is found by no query, through a node: whether the
   * store takes anything there.
   *
   * @param like where: on the same nodes as this, if there are such
   */
  CompletionStage<?> canary(Table table, Node node, Place like);

  /** Works a canary's series out as any other: rows, key, place. Throws if that cannot be. */
  void prepareCanary();

  /** What fails together. */
  enum Table {
    POINTS("data_points"),
    INDEX("row_keys, row_key_time_index or string_index"),
    TAG_INDEX("row_keys or tag_indexed_row_keys");

    final String tables;

    Table(String tables) {
      this.tables = tables;
    }
  }

  /**
   * Points of one row, before it is known whether the row is new.
   *
   * @param indexTtlS how long the index must have the row; 0 is for ever
   * @param indexUntilS until when it has it then, s since 1970; Long.MAX_VALUE is for ever
   * @param expiryS when the last of the points ends
   */
  record Row(RowKey key, int indexTtlS, long indexUntilS, long expiryS, List<Point> points) {}

  /**
   * What queries must be able to find.
   *
   * @param ofMetric whether it is the metric's name and the time of the row, or else the row
   */
  record IndexEntry(RowKey rowKey, int ttlS, boolean ofMetric) {}
}
