package io.kairoscope.kairosdb.queue;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** Cuts partitions into batches: of one node each, near to each other, and within both limits. */
final class Batches {
  private static final Comparator<Partition> NEAR =
      (one, other) -> one.place().compareTo(other.place());

  private final int maxPoints;
  private final int maxBytes;

  Batches(int maxPoints, int maxBytes) {
    this.maxPoints = maxPoints;
    this.maxBytes = maxBytes;
  }

  /**
   * @param choose the node that a partition is sent to
   */
  List<List<Partition>> cut(List<Partition> partitions, Function<Place, Node> choose) {
    Map<Node, List<Partition>> byNode = new IdentityHashMap<>();
    for (int i = 0; i < partitions.size(); i++) {
      Partition partition = partitions.get(i);
      byNode
          .computeIfAbsent(choose.apply(partition.place()), node -> new ArrayList<>())
          .add(partition);
    }
    List<List<Partition>> batches = new ArrayList<>();
    for (List<Partition> ofNode : byNode.values()) {
      ofNode.sort(NEAR);
      cutOfNode(ofNode, batches);
    }
    return batches;
  }

  private void cutOfNode(List<Partition> partitions, List<List<Partition>> batches) {
    List<Partition> batch = new ArrayList<>();
    int points = 0;
    int bytes = 0;
    for (Partition whole : partitions) {
      // Only a partition that is larger than a batch is in several.
      for (Partition part : parts(whole)) {
        if (!batch.isEmpty()
            && (points + part.points().size() > maxPoints || bytes + part.bytes() > maxBytes)) {
          batches.add(batch);
          batch = new ArrayList<>();
          points = 0;
          bytes = 0;
        }
        batch.add(part);
        points += part.points().size();
        bytes += part.bytes();
      }
    }
    if (!batch.isEmpty()) {
      batches.add(batch);
    }
  }

  private List<Partition> parts(Partition whole) {
    if (whole.points().size() <= maxPoints && whole.bytes() <= maxBytes) {
      return List.of(whole);
    }
    List<Partition> parts = new ArrayList<>();
    int from = 0;
    int bytes = whole.key().remaining();
    for (int i = 0; i < whole.points().size(); i++) {
      int size = Partition.bytes(whole.points().get(i));
      if (i > from && (i - from >= maxPoints || bytes + size > maxBytes)) {
        parts.add(whole.part(from, i));
        from = i;
        bytes = whole.key().remaining();
      }
      bytes += size;
    }
    parts.add(from == 0 ? whole : whole.part(from, whole.points().size()));
    return parts;
  }

  /** Halves of a batch; empty if it is a single point. */
  static List<List<Partition>> halves(List<Partition> batch) {
    if (batch.size() > 1) {
      int middle = batch.size() / 2;
      return List.of(batch.subList(0, middle), batch.subList(middle, batch.size()));
    }
    Partition one = batch.get(0);
    int size = one.points().size();
    if (size < 2) {
      return List.of();
    }
    return List.of(List.of(one.part(0, size / 2)), List.of(one.part(size / 2, size)));
  }
}
