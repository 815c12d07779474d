package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.metrics.Histogram;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;

/** What happened, counted where it happens; {@link QueueMetrics} tells it. */
final class QueueStats {
  // From a point alone, as without a window, to the largest batch that is of use.
  private static final long[] ROWS = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000};
  // With what Cassandra (5 and 50 KiB) and ScyllaDB (128 and 1024 KiB) warn of and refuse, and the
  // bound of ours (32 KiB).
  private static final long[] BYTES = {
    1 << 10, 2 << 10, 5 << 10, 10 << 10, 20 << 10, 32 << 10, 50 << 10, 128 << 10, 1 << 20
  };
  // Without a window a point is stored in ms, with one (15 s by default) after it; past two windows
  // and a minute the queue calls itself unhealthy; the rest is for a store that was away.
  private static final long[] STORED_MS = {
    50, 100, 200, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 20_000, 30_000, 60_000, 120_000, 300_000,
    1_800_000, 7_200_000
  };

  /** Points put and stored, and those read back from the file, since the start. */
  final LongAdder put = new LongAdder();
  final LongAdder stored = new LongAdder();
  final LongAdder readBack = new LongAdder();

  /** Points that were refused, not taken: the sender was told. */
  final LongAdder refused = new LongAdder();

  /** Records of the file that are no point which can be stored. */
  final LongAdder unreadable = new LongAdder();

  /** Attempts to write that failed, and so were made again: of points, and of the index. */
  final LongAdder retries = new LongAdder();
  final LongAdder indexFailures = new LongAdder();

  /** Times that the delivering thread met an error, whatever it was, and went on. */
  final LongAdder deliveryFailures = new LongAdder();

  /** Points that the store had, and that were written again as one of its nodes went or came. */
  final LongAdder rewritten = new LongAdder();

  /** Points that were given up before they were stored, as they were deleted on another node. */
  final LongAdder forgotten = new LongAdder();

  /** Points that wait in the file again, as the store did not take them while it took others. */
  final LongAdder givenBack = new LongAdder();

  /** Batches that the store found too large, and that went out in two. */
  final LongAdder splits = new LongAdder();

  /** Of each batch that was stored: rows, by table. */
  final Histogram pointsBatch = Histogram.of(ROWS);
  final Histogram rowKeysBatch = Histogram.of(ROWS);
  final Histogram tagIndexBatch = Histogram.of(ROWS);
  final Histogram rowTimesBatch = Histogram.of(ROWS);
  final Histogram namesBatch = Histogram.of(ROWS);

  /** Of each batch of points that was stored: bytes; and of each partition in one, points. */
  final Histogram batchBytes = Histogram.of(BYTES);
  final Histogram partitionPoints = Histogram.of(ROWS);

  /** From put to stored, ms, of the oldest point of each partition in a batch. */
  final Histogram storedAfterMs = Histogram.seconds(TimeUnit.MILLISECONDS, STORED_MS);

  /** Points that ended before they could be written, and those refused for good by the store. */
  final LongAdder expired = new LongAdder();
  final LongAdder deadLetters = new LongAdder();

  /** Errors of our own or of what we call, that were caught where nothing should be thrown. */
  final LongAdder errors = new LongAdder();

  /** Storage nodes that fell silent, and batches that were sent again by another for it. */
  final LongAdder silences = new LongAdder();
  final LongAdder hedged = new LongAdder();

  /** Times that a storage node answered later than is waited for, and was given less at a time. */
  final LongAdder lates = new LongAdder();

  /** Index rows that were written again: for points that outlive them, or after a delete. */
  final LongAdder reindexed = new LongAdder();
}
