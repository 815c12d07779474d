package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

/** Both limits hold, nothing is lost, and a partition is in several batches only if it must. */
class BatchesTest {
  private static final List<Node> NODES =
      List.of(new Node("a", null), new Node("b", null), new Node("c", null));

  private static Partition partition(int key, int points, Random random) {
    List<Point> list = new ArrayList<>();
    for (int i = 0; i < points; i++) {
      list.add(new Point(key * 1_000L + i, i, 0, 0, new byte[random.nextInt(100)], null));
    }
    ByteBuffer bytes = ByteBuffer.allocate(20 + random.nextInt(100)).putInt(0, key);
    Place place =
        new Place(List.of(NODES.get(random.nextInt(3))), random.nextInt(4), random.nextLong());
    return new Partition(null, bytes, place, CompletableFuture.completedFuture(null), list);
  }

  private static List<List<Partition>> cut(int points, int bytes, List<Partition> partitions) {
    return new Batches(points, bytes).cut(partitions, place -> place.nodes().get(0));
  }

  @Test
  void keepsBothLimitsAndWholePartitions() {
    for (int seed = 0; seed < 2_000; seed++) {
      Random random = new Random(seed);
      int maxPoints = 1 + random.nextInt(60);
      int maxBytes = 100 + random.nextInt(5_000);
      List<Partition> partitions = new ArrayList<>();
      for (int key = 0; key < random.nextInt(40); key++) {
        partitions.add(partition(key, 1 + random.nextInt(30), random));
      }
      Set<Long> seen = new HashSet<>();
      for (List<Partition> batch : cut(maxPoints, maxBytes, partitions)) {
        int points = 0;
        int bytes = 0;
        Place last = null;
        for (Partition part : batch) {
          points += part.points().size();
          bytes += part.bytes();
          part.points().forEach(point -> assertTrue(seen.add(point.index()), "twice"));
          assertTrue(last == null || last.nodes().equals(part.place().nodes()), "two hosts");
          assertTrue(last == null || last.compareTo(part.place()) <= 0, "not sorted");
          last = part.place();
          Partition whole = partitions.get(part.key().getInt(0));
          boolean small = whole.points().size() <= maxPoints && whole.bytes() <= maxBytes;
          assertTrue(!small || part.points().size() == whole.points().size(), "in two batches");
        }
        assertTrue(points <= maxPoints, "seed " + seed);
        assertTrue(bytes <= maxBytes || points == 1, "seed " + seed);
      }
      assertEquals(partitions.stream().mapToInt(p -> p.points().size()).sum(), seen.size());
    }
  }

  @Test
  void halvesEndAtASinglePoint() {
    Partition one = partition(1, 1, new Random(1));
    assertEquals(List.of(), Batches.halves(List.of(one)));
    Partition three = partition(2, 3, new Random(1));
    List<List<Partition>> halves = Batches.halves(List.of(three));
    assertEquals(1, halves.get(0).get(0).points().size());
    assertEquals(2, halves.get(1).get(0).points().size());
    assertEquals(2, Batches.halves(List.of(one, three)).size());
  }
}
