package io.kairoscope.kairosdb.queue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import org.kairosdb.datastore.cassandra.CassandraDatastore;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;

/**
 * A store whose answers the test gives, one by one and in any order: what was asked stays in {@link
 * #asked} until then. What fails may have been written all the same, as after a time-out.
 */
class FakeStore implements Store {
  static final long ROW_MS = 1_000;

  final List<Asked> asked = new ArrayList<>();
  final Map<String, Map<Long, byte[]>> points = new HashMap<>();
  final Set<String> index = new HashSet<>();
  final Set<String> metrics = new HashSet<>();
  // A batch of more partitions than this is too large; one of a single partition never is.
  int maxPartitions = Integer.MAX_VALUE;
  int keys;
  // How many more partitions have a place; then that fails once.
  int placesLeft = Integer.MAX_VALUE;

  static final class Asked {
    final CompletableFuture<Void> answer = new CompletableFuture<>();
    final List<Partition> batch;
    final List<IndexEntry> entries;

    private Asked(List<Partition> batch, List<IndexEntry> entries) {
      this.batch = batch;
      this.entries = entries;
    }
  }

  @Override
  public List<Row> rows(Group group) {
    Map<Long, List<Point>> rows = new HashMap<>();
    for (Point point : group.points()) {
      rows.computeIfAbsent(point.time() / ROW_MS * ROW_MS, row -> new ArrayList<>()).add(point);
    }
    Series series = group.series();
    List<Row> result = new ArrayList<>();
    rows.forEach(
        (time, points) ->
            result.add(
                new Row(
                    new DataPointsRowKey(
                        series.metric(), "fake", time, series.type(), series.tags()),
                    0,
                    points)));
    return result;
  }

  @Override
  public ByteBuffer key(DataPointsRowKey rowKey) {
    if (rowKey.getSerializedBuffer() == null) {
      keys++;
    }
    return CassandraDatastore.DATA_POINTS_ROW_KEY_SERIALIZER.toByteBuffer(rowKey);
  }

  @Override
  public Place place(ByteBuffer key) {
    if (placesLeft-- == 0) {
      throw new IllegalStateException("no ring");
    }
    int hash = key.hashCode();
    return new Place("host" + Math.floorMod(hash, 3), Math.floorMod(hash, 2), hash);
  }

  @Override
  public CompletionStage<?> writePoints(List<Partition> batch) {
    Asked one = new Asked(batch, List.of());
    if (batch.size() > maxPartitions) {
      return CompletableFuture.failedFuture(new TooLargeException(null));
    }
    asked.add(one);
    return one.answer;
  }

  @Override
  public CompletionStage<?> writeIndex(List<IndexEntry> entries) {
    Asked one = new Asked(List.of(), entries);
    asked.add(one);
    return one.answer;
  }

  /** Answers as a store that has written it. */
  void succeed(Asked one) {
    asked.remove(one);
    apply(one);
    one.answer.complete(null);
  }

  /** Answers with an error, after it was written or not. */
  void fail(Asked one, boolean written) {
    asked.remove(one);
    if (written) {
      apply(one);
    }
    one.answer.completeExceptionally(new IllegalStateException("the store has a bad day"));
  }

  private void apply(Asked one) {
    for (Partition partition : one.batch) {
      Map<Long, byte[]> row =
          points.computeIfAbsent(name(partition.rowKey()), key -> new HashMap<>());
      partition.points().forEach(point -> row.put(point.time(), point.value()));
    }
    for (IndexEntry entry : one.entries) {
      index.add(name(entry.rowKey()));
      if (entry.newMetric()) {
        metrics.add(entry.rowKey().getMetricName() + "@" + entry.rowKey().getTimestamp());
      }
    }
  }

  /** Whether a query finds the point. */
  boolean finds(Series series, long time) {
    long rowTime = time / ROW_MS * ROW_MS;
    String name =
        name(
            new DataPointsRowKey(series.metric(), "fake", rowTime, series.type(), series.tags()));
    return points.getOrDefault(name, Map.of()).containsKey(time)
        && index.contains(name)
        && metrics.contains(series.metric() + "@" + rowTime);
  }

  private static String name(DataPointsRowKey key) {
    return key.getMetricName() + key.getTags() + "@" + key.getTimestamp();
  }
}
