package io.kairoscope.kairosdb.queue;

import com.datastax.driver.core.exceptions.InvalidQueryException;
import com.datastax.driver.core.exceptions.OverloadedException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Predicate;
import org.kairosdb.datastore.cassandra.CassandraDatastore;

/**
 * A store whose answers the test gives, one by one and in any order: what was asked stays in {@link
 * #asked} until then. What fails may have been written all the same, as after a time-out.
 */
class FakeStore implements Store {
  static final long ROW_MS = 1_000;
  // Of the ring, with nodes of their own each.
  static final int RANGES = 4;

  final List<Node> nodes =
      List.of(new Node("a", null), new Node("b", null), new Node("c", null));
  // Looked through by tests while other threads add to it.
  final List<Asked> asked = new CopyOnWriteArrayList<>();
  final Map<String, Map<Long, byte[]>> points = new HashMap<>();
  private final Map<String, Map<Long, Long>> writeTimes = new HashMap<>();
  final Set<String> index = new HashSet<>();
  final Set<String> metrics = new HashSet<>();
  // A batch of more partitions than this is too large; one of a single partition never is.
  int maxPartitions = Integer.MAX_VALUE;
  // What is refused for good, whatever else is with it.
  Predicate<Point> badPoint = point -> false;
  Predicate<IndexEntry> badEntry = entry -> false;
  Throwable badError = new InvalidQueryException("a bad one");
  // What a canary meets, and how many there were.
  Throwable canaryError;
  int canaries;
  int keys;
  // What is thrown where, as often as is said here.
  final Map<String, Throwable> thrown = new HashMap<>();
  final Map<String, Integer> throwsLeft = new HashMap<>();
  // Of the index, per row and per metric and row time: its time to live when it was last written.
  final Map<String, Integer> indexTtls = new HashMap<>();
  long nowS;
  // Of points that others may have put without one; 0 is for ever.
  long defaultTtlS;

  static final class Asked {
    final CompletableFuture<Integer> answer = new CompletableFuture<>();
    final Node node;
    final List<Partition> batch;
    final List<IndexEntry> entries;

    private Asked(Node node, List<Partition> batch, List<IndexEntry> entries) {
      this.node = node;
      this.batch = batch;
      this.entries = entries;
    }
  }

  /** The same points as the queue hands out what the store had before. */
  static Group again(Group group) {
    Release release = new Release(group.points().size(), Release.Kind.AGAIN);
    return new Group(
        group.series(),
        group.points().stream()
            .map(
                point ->
                    new Point(
                        point.index(),
                        point.time(),
                        point.takenAt(),
                        point.ttlS(),
                        point.value(),
                        release))
            .toList());
  }

  /** Has a method throw some times. */
  void throwing(String method, int times, Throwable error) {
    thrown.put(method, error);
    throwsLeft.put(method, times);
  }

  private Throwable mayFail(String method) {
    int left = throwsLeft.getOrDefault(method, 0);
    if (left <= 0) {
      return null;
    }
    throwsLeft.put(method, left - 1);
    return thrown.get(method);
  }

  private void mayThrow(String method) {
    Throwable error = mayFail(method);
    if (error instanceof Error) {
      throw (Error) error;
    }
    if (error != null) {
      throw (RuntimeException) error;
    }
  }

  @Override
  public List<Row> rows(Group group) {
    mayThrow("rows");
    Map<Long, List<Point>> rows = new HashMap<>();
    for (Point point : group.points()) {
      rows.computeIfAbsent(point.time() / ROW_MS * ROW_MS, row -> new ArrayList<>()).add(point);
    }
    List<Row> result = new ArrayList<>();
    rows.forEach(
        (time, some) -> {
          // As CqlStore has it: the longest of them, and a width.
          int ttl = 0;
          long longest = some.stream().mapToLong(point -> ttl(point)).max().orElse(0);
          if (longest < Long.MAX_VALUE) {
            ttl = (int) longest + 100;
          }
          result.add(
              new Row(
                  new RowKey(group.series(), "fake", time),
                  ttl,
                  ttl == 0 ? Long.MAX_VALUE : nowS + ttl,
                  ttl == 0 ? Long.MAX_VALUE : nowS + longest,
                  some));
        });
    return result;
  }

  private static long ttl(Point point) {
    return point.ttlS() == 0 ? Long.MAX_VALUE : point.ttlS();
  }

  @Override
  public long defaultUntilS(RowKey rowKey) {
    return defaultTtlS == 0 ? Long.MAX_VALUE : nowS + defaultTtlS + 100;
  }

  @Override
  public ByteBuffer key(RowKey rowKey) {
    mayThrow("key");
    if (rowKey.getSerializedBuffer() == null) {
      keys++;
    }
    return CassandraDatastore.DATA_POINTS_ROW_KEY_SERIALIZER.toByteBuffer(rowKey);
  }

  @Override
  public Place place(ByteBuffer key) {
    mayThrow("place");
    int hash = key.hashCode();
    int first = Math.floorMod(hash, 3);
    List<Node> rotated =
        List.of(nodes.get(first), nodes.get((first + 1) % 3), nodes.get((first + 2) % 3));
    return new Place(rotated, Math.floorMod(hash, 2), hash);
  }

  @Override
  public Object copies(ByteBuffer key) {
    return Math.floorMod(key.hashCode(), RANGES);
  }

  @Override
  public CompletionStage<Integer> writePoints(Node node, List<Partition> batch) {
    mayThrow("points");
    Throwable failure = mayFail("pointsLater");
    if (failure != null) {
      return CompletableFuture.failedFuture(failure);
    }
    if (batch.size() > maxPartitions) {
      return CompletableFuture.failedFuture(new InvalidQueryException("Batch too large"));
    }
    Asked one = new Asked(node, batch, List.of());
    asked.add(one);
    return one.answer;
  }

  @Override
  public CompletionStage<?> writeIndex(Node node, List<IndexEntry> entries, long atMs) {
    mayThrow("index");
    Asked one = new Asked(node, List.of(), entries);
    asked.add(one);
    return one.answer;
  }

  @Override
  public Table table(IndexEntry entry) {
    return Table.INDEX;
  }

  @Override
  public CompletionStage<?> canary(Table table, Node node, Place like) {
    canaries++;
    return canaryError == null
        ? CompletableFuture.completedFuture(null)
        : CompletableFuture.failedFuture(canaryError);
  }

  @Override
  public void prepareCanary() {
    mayThrow("canary");
  }

  /** Answers as a store that has written it, or refuses it if there is something bad in it. */
  void succeed(Asked one) {
    succeed(one, 0);
  }

  /** The same, with so many points of it that had expired. */
  void succeed(Asked one, int expired) {
    asked.remove(one);
    boolean bad =
        one.batch.stream().flatMap(part -> part.points().stream()).anyMatch(badPoint)
            || one.entries.stream().anyMatch(badEntry);
    if (bad) {
      one.answer.completeExceptionally(badError);
      return;
    }
    apply(one);
    one.answer.complete(expired);
  }

  /** Answers with an error that will pass, after it was written or not. */
  void fail(Asked one, boolean written) {
    fail(one, written, new OverloadedException(null, "the store has a bad day"));
  }

  void fail(Asked one, boolean written, Throwable error) {
    asked.remove(one);
    boolean bad =
        one.batch.stream().flatMap(part -> part.points().stream()).anyMatch(badPoint)
            || one.entries.stream().anyMatch(badEntry);
    if (written && !bad) {
      apply(one);
    }
    one.answer.completeExceptionally(error);
  }

  private void apply(Asked one) {
    for (Partition partition : one.batch) {
      Map<Long, byte[]> row =
          points.computeIfAbsent(name(partition.rowKey()), key -> new HashMap<>());
      Map<Long, Long> times =
          writeTimes.computeIfAbsent(name(partition.rowKey()), key -> new HashMap<>());
      for (Point point : partition.points()) {
        // An earlier one does not replace a later one, whichever comes first.
        if (times.getOrDefault(point.time(), Long.MIN_VALUE) <= point.takenAt()) {
          row.put(point.time(), point.value());
          times.put(point.time(), point.takenAt());
        }
      }
    }
    for (IndexEntry entry : one.entries) {
      RowKey key = entry.rowKey();
      if (entry.ofMetric()) {
        metrics.add(key.getMetricName() + "@" + key.getTimestamp());
        indexTtls.put(key.getMetricName() + "@" + key.getTimestamp(), entry.ttlS());
      } else {
        index.add(name(key));
        indexTtls.put(name(key), entry.ttlS());
      }
    }
  }

  /** Whether a query finds the point. */
  boolean finds(Series series, long time) {
    long rowTime = time / ROW_MS * ROW_MS;
    String name = name(new RowKey(series, "fake", rowTime));
    return points.getOrDefault(name, Map.of()).containsKey(time)
        && index.contains(name)
        && metrics.contains(series.metric() + "@" + rowTime);
  }

  static String name(RowKey key) {
    return key.getMetricName() + key.getTags() + "@" + key.getTimestamp();
  }
}
