package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.metrics.Exposition;
import io.kairoscope.kairosdb.metrics.MetricSource;
import java.io.IOException;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The queue's metrics, as {@code kairosdb_queue_*}, and its batches. */
final class QueueMetrics implements MetricSource {
  private static final Logger logger = LoggerFactory.getLogger(QueueMetrics.class);
  private static final double MS = 1e3;

  private final CoalescingQueue queue;
  private final QueueFile file;
  private final DeadLetters deadLetters;
  private final QueueStats stats;
  private final QueueSettings settings;
  private final Supplier<QueueHealth> health;
  private final LongSupplier inFlightBytes;

  /**
   * @param inFlightBytes what is on its way to the store, bytes of heap
   */
  QueueMetrics(
      CoalescingQueue queue,
      QueueFile file,
      DeadLetters deadLetters,
      QueueStats stats,
      QueueSettings settings,
      Supplier<QueueHealth> health,
      LongSupplier inFlightBytes) {
    this.queue = queue;
    this.file = file;
    this.deadLetters = deadLetters;
    this.stats = stats;
    this.settings = settings;
    this.health = health;
    this.inFlightBytes = inFlightBytes;
  }

  @Override
  public void tell(Exposition to) {
    QueueHealth now = health.get();
    gauge(to, "healthy", "1 if nothing is wrong with the queue, else 0.", now.healthy() ? 1 : 0);
    depth(to, now);
    disk(to, now);
    points(to, now);
    troubles(to);
    batches(to);
  }

  private void depth(Exposition to, QueueHealth now) {
    CoalescingQueue.Depth depth = queue.depth();
    gauge(
        to,
        "waiting_points",
        "Points that were taken and are not in the store.",
        depth.waiting());
    gauge(to, "memory_points", "Waiting points that are in memory.", depth.points());
    gauge(to, "file_only_points", "Waiting points for which memory has no room.", depth.fileOnly());
    gauge(
        to,
        "parked_points",
        "Waiting points that the store does not take while it takes others; they are in the file.",
        depth.parked());
    gauge(
        to,
        "since_checkpoint_points",
        "Points that a restart would write again.",
        depth.sinceCheckpoint());
    gauge(
        to,
        "oldest_point_age_seconds",
        "Since the oldest point that is not in the store was taken; 0 for none.",
        now.oldestMs() / MS);
    gauge(
        to,
        "window_seconds",
        "How long a point waits for others of its series at most.",
        settings.windowMs() / MS);
    gauge(to, "memory_bytes", "Heap that waiting points take.", depth.bytes());
    gauge(to, "memory_limit_bytes", "Heap that waiting points may take.", settings.waitingBytes());
    gauge(
        to,
        "in_flight_bytes",
        "Heap of points on their way to the store.",
        inFlightBytes.getAsLong());
    gauge(
        to,
        "in_flight_limit_bytes",
        "Heap that points on their way may take.",
        settings.flyingBytes());
  }

  private void disk(Exposition to, QueueHealth now) {
    gauge(to, "disk_bytes", "Size of the queue's files.", now.diskBytes());
    gauge(
        to,
        "disk_limit_bytes",
        "Size that the queue's files may have; past it no points are taken.",
        settings.diskBytes());
    try {
      gauge(to, "disk_free_bytes", "Room that is left on the disk of the queue.", file.freeBytes());
      gauge(
          to,
          "dead_letters_bytes",
          "Size of the file of dead letters, until somebody takes them away.",
          deadLetters.bytes());
    } catch (IOException error) {
      logger.warn("The queue's disk cannot be looked at", error);
    }
    gauge(
        to,
        "disk_free_limit_bytes",
        "Room that must be left on the disk of the queue; else no points are taken.",
        settings.diskFreeBytes());
  }

  private void points(Exposition to, QueueHealth now) {
    counter(to, "put_points_total", "Points that were taken.", stats.put);
    counter(
        to,
        "refused_points_total",
        "Points that were not taken; their sender is told.",
        stats.refused);
    counter(to, "stored_points_total", "Points that the store took.", stats.stored);
    counter(
        to,
        "expired_points_total",
        "Points that ended before they could be written.",
        stats.expired);
    counter(
        to,
        "forgotten_points_total",
        "Points that were deleted before they could be written.",
        stats.forgotten);
    to.counter(
            name("dead_letters_total"),
            "Points that the store refused for good; they are in dead_letters.jsonl.")
        .value(now.deadLetters());
    to.counter(
            name("unreadable_records_total"),
            "Records of the queue's file that were torn, or are no points.")
        .value(now.unreadable());
    counter(
        to, "read_back_points_total", "Points read back from the queue's file.", stats.readBack);
    counter(
        to,
        "given_back_points_total",
        "Points that the store did not take while it took others, and that wait in the file again.",
        stats.givenBack);
    counter(
        to,
        "rewritten_points_total",
        "Points written again as a storage node went or came.",
        stats.rewritten);
  }

  private void troubles(Exposition to) {
    to.counter(
            name("failed_writes_total"),
            "Batches that the store did not take; each is tried again. Of points or their index.")
        .value(stats.retries.sum(), "kind", "points")
        .value(stats.indexFailures.sum(), "kind", "index");
    counter(
        to, "split_batches_total", "Batches that were too large and went out in two.", stats.splits);
    counter(
        to,
        "hedged_batches_total",
        "Batches that were sent again by another storage node, as one was silent or to tell whether"
            + " it was.",
        stats.hedged);
    counter(to, "node_silences_total", "Times that a storage node fell silent.", stats.silences);
    counter(
        to,
        "node_lates_total",
        "Times that a storage node answered later than is waited for, and was asked for less.",
        stats.lates);
    counter(
        to, "reindexed_rows_total", "Rows of the index that were written again.", stats.reindexed);
    counter(
        to,
        "delivery_failures_total",
        "Times that the thread that hands out points met an error.",
        stats.deliveryFailures);
    counter(to, "errors_total", "Errors that nothing should have thrown.", stats.errors);
  }

  private void batches(Exposition to) {
    to.histogram("kairosdb_write_batch_rows", "Rows of a batch that was written, by table.")
        .values(stats.pointsBatch, "table", "data_points")
        .values(stats.rowKeysBatch, "table", "row_keys")
        .values(stats.tagIndexBatch, "table", "tag_indexed_row_keys")
        .values(stats.rowTimesBatch, "table", "row_key_time_index")
        .values(stats.namesBatch, "table", "string_index");
    to.histogram(
            "kairosdb_write_batch_bytes",
            "Size of a batch of points that was written, as the store counts it, from above.")
        .values(stats.batchBytes);
    to.histogram(
            "kairosdb_write_partition_points",
            "Points of a series in a batch that was written: what the queue coalesces.")
        .values(stats.partitionPoints);
    to.histogram(
            name("stored_after_seconds"),
            "From taking a point to its being stored: of the oldest of each series in a batch.")
        .values(stats.storedAfterMs);
  }

  private static String name(String of) {
    return "kairosdb_queue_" + of;
  }

  private static void gauge(Exposition to, String name, String help, double value) {
    to.gauge(name(name), help).value(value);
  }

  private static void counter(Exposition to, String name, String help, LongAdder value) {
    to.counter(name(name), help).value(value.sum());
  }
}
