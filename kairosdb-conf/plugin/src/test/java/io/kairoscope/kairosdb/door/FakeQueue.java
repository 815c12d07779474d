package io.kairoscope.kairosdb.door;

import com.google.common.collect.SetMultimap;
import io.kairoscope.kairosdb.queue.Decoded;
import io.kairoscope.kairosdb.queue.NotTakenError;
import io.kairoscope.kairosdb.queue.PointQueue;
import io.kairoscope.kairosdb.queue.QueueHealth;
import io.kairoscope.kairosdb.queue.RecordBuffer;
import io.kairoscope.kairosdb.queue.RefusedPointException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.AbstractExecutorService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.ObjIntConsumer;
import org.kairosdb.core.DataPointSet;
import org.kairosdb.core.queue.EventCompletionCallBack;
import org.kairosdb.core.queue.QueueProcessor;
import org.kairosdb.events.DataPointEvent;

/** A queue that does what a test says; a queue processor too, as KairosDB binds one. */
class FakeQueue extends QueueProcessor implements PointQueue {
  final List<Decoded> puts = Collections.synchronizedList(new ArrayList<>());
  final List<String> calls = Collections.synchronizedList(new ArrayList<>());
  volatile boolean keeps = true;
  volatile long count;
  volatile int takes = Integer.MAX_VALUE;
  volatile boolean syncs = true;
  volatile boolean flushes = true;
  volatile boolean knowsDeletes;
  volatile Error fails;
  volatile QueueHealth health = new QueueHealth(List.of(), 0, 0, 0, 0);

  FakeQueue() {
    super(nobody(), 1, 0, 0);
  }

  private static ExecutorService nobody() {
    return new AbstractExecutorService() {
      @Override
      public void shutdown() {}

      @Override
      public List<Runnable> shutdownNow() {
        return List.of();
      }

      @Override
      public boolean isShutdown() {
        return true;
      }

      @Override
      public boolean isTerminated() {
        return true;
      }

      @Override
      public boolean awaitTermination(long time, TimeUnit unit) {
        return true;
      }

      @Override
      public void execute(Runnable work) {}
    };
  }

  @Override
  public void add(RecordBuffer records) throws RefusedPointException {
    if (records.ttlS() < 0) {
      throw new RefusedPointException("ttl is negative");
    }
    records.end();
  }

  @Override
  public void admit(RecordBuffer records, ObjIntConsumer<String> refused) {
    for (int record = 0; record < records.count(); ) {
      if (records.metricOf(record).startsWith("new.")) {
        refused.accept("its series is new", record);
        Decoded.remove(records, record);
      } else {
        record++;
      }
    }
  }

  @Override
  public void put(RecordBuffer records) {
    if (fails != null) {
      throw fails;
    }
    List<Decoded> points = keeps ? Decoded.of(records, new FakeFactories()) : List.of();
    int taken = Math.min(records.count(), Math.max(0, takes - puts.size()));
    puts.addAll(points.subList(0, Math.min(taken, points.size())));
    count += keeps ? 0 : taken;
    Decoded.take(records, taken);
    if (taken < records.count()) {
      throw new NotTakenError("the disk is full", null);
    }
  }

  @Override
  public void put(DataPointEvent event) {
    puts.add(
        new Decoded(
            event.getMetricName(), event.getTags(), event.getDataPoint(), event.getTtl()));
  }

  @Override
  public void sync() {
    calls.add("sync");
    if (!syncs) {
      throw new NotTakenError("the disk is gone", null);
    }
  }

  @Override
  public void syncSoon() {
    calls.add("sync soon");
  }

  @Override
  public boolean flush(String metric, SetMultimap<String, String> tags, long timeoutMs) {
    calls.add("flush " + metric + (tags.isEmpty() ? " " : tags + " ") + timeoutMs);
    return flushes;
  }

  @Override
  public void forget(
      String metric, long startMs, long endMs, SetMultimap<String, String> tags, long before) {
    calls.add("forget " + metric + " " + startMs + " " + endMs + " " + tags + " " + before);
  }

  @Override
  public boolean hasOthers() {
    return false;
  }

  @Override
  public void deletesAreKnown() {
    knowsDeletes = true;
  }

  @Override
  public void reindex(String metric, long sinceMs) {
    calls.add("reindex " + metric + " " + sinceMs);
  }

  @Override
  public Runnable deleting(String metric, long sinceMs) {
    return () -> reindex(metric, sinceMs);
  }

  @Override
  public QueueHealth health() {
    return health;
  }

  @Override
  public long waiting() {
    return puts.size();
  }

  @Override
  public long sinceCheckpoint() {
    return puts.size();
  }

  @Override
  protected List<DataPointEvent> get(int batchSize) {
    return List.of();
  }

  @Override
  protected int getAvailableDataPointEvents() {
    return 0;
  }

  @Override
  protected EventCompletionCallBack getCompletionCallBack() {
    return () -> {};
  }

  @Override
  protected void addReportedMetrics(ArrayList<DataPointSet> sets, long now) {}
}
