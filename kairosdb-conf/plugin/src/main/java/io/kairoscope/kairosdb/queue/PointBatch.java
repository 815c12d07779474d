package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.queue.Store.Table;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongSupplier;

/** Points, settled when both they and the index of their rows are written. */
final class PointBatch extends Batch {
  private final List<Partition> partitions;
  private final Means means;
  private final boolean again;
  private final boolean parked;
  // How many partitions have been settled, or wait for their index.
  private int settled;
  // Of its points those that had expired, and are not counted as stored.
  private final AtomicInteger expired = new AtomicInteger();

  /** What all of them need. */
  record Means(Store store, Settler settler, QueueStats stats, LongSupplier nowMs) {}

  PointBatch(List<Partition> partitions, Means means) {
    super(partitions.get(0).place());
    this.partitions = partitions;
    this.means = means;
    // All of a batch were handed over together.
    Release release = partitions.get(0).points().get(0).release();
    again = release != null && release.isAgain();
    parked = release != null && release.isParked();
  }

  @Override
  Place newPlace(Store store) {
    return store.place(partitions.get(0).key());
  }

  @Override
  Table table() {
    return Table.POINTS;
  }

  @Override
  LongAdder failures() {
    return means.stats.retries;
  }

  @Override
  CompletionStage<Integer> send(Node node) {
    return means.store.writePoints(node, partitions);
  }

  @Override
  List<PointBatch> halves() {
    List<PointBatch> halves = new ArrayList<>(2);
    for (List<Partition> half : Batches.halves(partitions)) {
      halves.add(new PointBatch(half, means));
    }
    return halves;
  }

  @Override
  List<PointBatch> parts() {
    Map<Object, List<Partition>> byNodes = new LinkedHashMap<>();
    for (Partition partition : partitions) {
      byNodes
          .computeIfAbsent(means.store.copies(partition.key()), none -> new ArrayList<>())
          .add(partition);
    }
    return byNodes.values().stream().map(some -> new PointBatch(some, means)).toList();
  }

  @Override
  void giveBack() {
    for (Partition partition : partitions) {
      means.settler.giveBack(partition.rowKey(), partition.points());
    }
  }

  @Override
  boolean isParked() {
    return parked;
  }

  @Override
  boolean wasSent(Object told) {
    int over = over(told);
    if (over == 0) {
      return true;
    }
    int points = 0;
    for (Partition partition : partitions) {
      points += partition.points().size();
    }
    return over < points;
  }

  private static int over(Object told) {
    return told instanceof Integer ? (Integer) told : 0;
  }

  @Override
  void written(Object told) {
    if (settled == 0) {
      count(over(told));
    }
    // It is called again if it throws, and must not settle anything twice.
    while (settled < partitions.size()) {
      Partition partition = partitions.get(settled++);
      CompletableFuture<Void> indexed = partition.indexed();
      if (indexed.isDone()) {
        settle(partition, error(indexed));
      } else {
        indexed.whenComplete((nothing, error) -> settle(partition, error));
      }
    }
  }

  private static Throwable error(CompletableFuture<Void> done) {
    return done.isCompletedExceptionally()
        ? done.handle((nothing, error) -> error).getNow(null)
        : null;
  }

  private void settle(Partition partition, Throwable indexError) {
    if (indexError != null && Refusal.cause(indexError) instanceof GivenBackException) {
      means.settler.giveBack(partition.rowKey(), partition.points());
      return;
    }
    if (!again) {
      means.stats.storedAfterMs.observe(
          means.nowMs.getAsLong() - partition.points().get(0).takenAt());
    }
    if (indexError != null) {
      means.settler.bury(partition.rowKey(), partition.points(), RowIndex.reason(partition));
    } else {
      if (!again) {
        int points = partition.points().size();
        means.stats.stored.add(points - notStored(points));
      }
      means.settler.settle(partition.rowKey(), partition.points());
    }
  }

  /** How many of some points had expired; whichever, as a sum is all that is told. */
  private int notStored(int points) {
    int before = expired.getAndUpdate(left -> left - Math.min(left, points));
    return Math.min(before, points);
  }

  private void count(int over) {
    int bytes = 0;
    for (Partition partition : partitions) {
      bytes += partition.bytes();
      means.stats.partitionPoints.observe(partition.points().size());
    }
    means.stats.batchBytes.observe(bytes);
    // Taken off from what is settled: a counter that goes back is a restart to Prometheus.
    if (!again) {
      expired.set(over);
      means.stats.expired.add(over);
    }
  }

  @Override
  void dead(String reason) {
    for (Partition partition : partitions) {
      if (again) {
        // Whatever it has against it now, the store has it, or it was buried the first time.
        means.settler.settle(partition.rowKey(), partition.points());
      } else {
        means.settler.bury(partition.rowKey(), partition.points(), reason);
      }
    }
  }
}
