package io.kairoscope.kairosdb.queue;

import java.util.concurrent.atomic.LongAdder;
import org.kairosdb.util.SimpleStats;

/** What happened, counted where it happens; {@link QueueMetrics} tells it. */
final class QueueStats {
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

  /** Batches that the store found too large, and that went out in two. */
  final LongAdder splits = new LongAdder();

  /** Of each batch that was stored: points, bytes; and of each partition in one, points. */
  final SimpleStats batchPoints = new SimpleStats();
  final SimpleStats batchBytes = new SimpleStats();
  final SimpleStats partitionPoints = new SimpleStats();

  /** From put to stored, ms, of the oldest point of each partition in a batch. */
  final SimpleStats storedAfterMs = new SimpleStats();

  /** Points that ended before they could be written, and those refused for good by the store. */
  final LongAdder expired = new LongAdder();
  final LongAdder deadLetters = new LongAdder();

  /** Errors of our own or of what we call, that were caught where nothing should be thrown. */
  final LongAdder errors = new LongAdder();

  /** Storage nodes that fell silent, and batches that were sent again by another for it. */
  final LongAdder silences = new LongAdder();
  final LongAdder hedged = new LongAdder();

  /** Index rows that were written again: for points that outlive them, or after a delete. */
  final LongAdder reindexed = new LongAdder();
}
