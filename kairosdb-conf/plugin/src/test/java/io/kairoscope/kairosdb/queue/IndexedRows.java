package io.kairoscope.kairosdb.queue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.function.LongSupplier;
import org.kairosdb.datastore.cassandra.DataCache;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;
import org.kairosdb.datastore.cassandra.TimedString;

/** A writer with its caches, and a store that takes all at once: for tests of the door. */
public final class IndexedRows {
  private final FakeStore store;
  private final DataCache<DataPointsRowKey> rowKeys = new DataCache<>(100);
  private final DataCache<TimedString> metrics = new DataCache<>(100);
  private final Writer writer;
  private long next;

  /**
   * @param other whose store this one has as well; null for one of its own
   */
  public IndexedRows(IndexedRows other, LongSupplier nowMs, Path folder) {
    store = other == null ? new FakeStore() : other.store;
    FakeTimer timer = new FakeTimer();
    writer =
        new Writer(
            store,
            rowKeys,
            metrics,
            row -> {},
            new Batches(10, 10_000),
            new DeadLetters(folder.resolve("dead_letters.jsonl")),
            timer,
            () -> new Random(1),
            new Returning(points -> {}, () -> null),
            new QueueStats(),
            new Writer.Clocks(nowMs, timer::nowMs),
            new Writer.Limits(100, Long.MAX_VALUE, 1_000));
  }

  private static Series series(String metric, String sensor) {
    return new Series(metric, new TreeMap<>(Map.of("sensor", sensor)), "kairos_double");
  }

  /** A point of the first row that the store has when this returns. */
  public long put(String metric, String sensor) {
    long time = next++;
    Point point = new Point(time, time, 0, 0, new byte[8], null);
    writer.write(List.of(new Group(series(metric, sensor), List.of(point))));
    answer();
    return time;
  }

  private void answer() {
    while (!store.asked.isEmpty()) {
      store.succeed(store.asked.get(0));
    }
  }

  public void reindex(String metric, long sinceMs) {
    writer.reindex(metric, sinceMs);
    answer();
  }

  public Runnable deleting(String metric, long sinceMs) {
    Runnable over = writer.deleting(metric, sinceMs);
    return () -> {
      over.run();
      answer();
    };
  }

  /** What a delete of KairosDB's does of all rows. */
  public void deleteIndex() {
    store.index.clear();
    store.metrics.clear();
  }

  /** And what it does after that, on its own node. */
  public void emptyCaches() {
    rowKeys.clear();
    metrics.clear();
  }

  public boolean finds(String metric, String sensor, long time) {
    return store.finds(series(metric, sensor), time);
  }
}
