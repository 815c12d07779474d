package io.kairoscope.kairosdb;

import io.kairoscope.kairosdb.metrics.Exposition;
import io.kairoscope.kairosdb.metrics.MetricSource;
import io.kairoscope.kairosdb.queue.QueueDepth;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.commons.collections4.queue.CircularFifoQueue;
import org.kairosdb.bigqueue.IBigArray;
import org.kairosdb.core.queue.FileQueueProcessor;
import org.kairosdb.core.queue.QueueProcessor;
import org.kairosdb.util.SimpleStats;

/**
 * KairosDB's own queue. Its {@code getMetrics} is not asked: that writes three points about the
 * queue into the store, each time.
 */
final class StockQueue implements QueueDepth, MetricSource {
  private final FileQueueProcessor queue;
  private final IBigArray file;
  private final CircularFifoQueue<?> memory;
  private final AtomicInteger readBack;
  private final AtomicInteger handedOut;
  private final SimpleStats batches;

  // KairosDB's counts begin anew when they are asked for, so the sums are here.
  private long readBackSum;
  private long handedOutSum;
  private long batchCount;
  private long batchSum;

  StockQueue(FileQueueProcessor queue) {
    this.queue = queue;
    try {
      file = (IBigArray) field("m_bigArray");
      memory = (CircularFifoQueue<?>) field("m_memoryQueue");
      readBack = (AtomicInteger) field("m_readFromFileCount");
      handedOut = (AtomicInteger) field("m_readFromQueueCount");
      batches = (SimpleStats) Fields.get(QueueProcessor.class, queue, "m_batchStats");
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  private Object field(String name) throws ReflectiveOperationException {
    return Fields.get(FileQueueProcessor.class, queue, name);
  }

  /** Not yet handed to a batch; what is in flight to the store has left this count. */
  @Override
  public long waiting() {
    try {
      return file.getHeadIndex() - (long) field("m_nextIndex");
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The file's tail moves at checkpoints only. */
  @Override
  public long sinceCheckpoint() {
    return file.getHeadIndex() - file.getTailIndex();
  }

  @Override
  public synchronized void tell(Exposition to) {
    readBackSum += Integer.toUnsignedLong(readBack.getAndSet(0));
    handedOutSum += Integer.toUnsignedLong(handedOut.getAndSet(0));
    SimpleStats.Data since = batches.getAndClear();
    batchCount += since.count;
    batchSum += since.sum;
    to.gauge("kairosdb_queue_waiting_points", "Points that were taken and are not in the store.")
        .value(waiting());
    to.gauge("kairosdb_queue_memory_points", "Waiting points that are in memory.")
        .value(memory.size());
    to.gauge("kairosdb_queue_since_checkpoint_points", "Points that a restart would write again.")
        .value(sinceCheckpoint());
    to.counter("kairosdb_queue_handed_out_points_total", "Points that left KairosDB's own queue.")
        .value(handedOutSum);
    to.counter("kairosdb_queue_read_back_points_total", "Points read back from the queue's file.")
        .value(readBackSum);
    to.summary("kairosdb_queue_batch_points", "Points of a batch that left KairosDB's own queue.")
        .values(batchCount, batchSum);
  }
}
