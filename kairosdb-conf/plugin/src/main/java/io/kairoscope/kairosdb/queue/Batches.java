package io.kairoscope.kairosdb.queue;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Cuts partitions into batches: of one host each, near to each other, and within both limits. */
final class Batches {
  private final int maxPoints;
  private final int maxBytes;

  Batches(int maxPoints, int maxBytes) {
    this.maxPoints = maxPoints;
    this.maxBytes = maxBytes;
  }

  /** Batches, taking turns among the hosts, so that a slow one is not met with all at once. */
  List<List<Partition>> cut(List<Partition> partitions) {
    Map<String, List<Partition>> byHost = new TreeMap<>();
    for (Partition partition : partitions) {
      byHost.computeIfAbsent(partition.place().host(), host -> new ArrayList<>()).add(partition);
    }
    List<List<List<Partition>>> ofHosts = new ArrayList<>();
    for (List<Partition> ofHost : byHost.values()) {
      ofHost.sort(Comparator.comparing(Partition::place));
      ofHosts.add(cutOfHost(ofHost));
    }
    List<List<Partition>> turns = new ArrayList<>();
    for (int turn = 0; turns.size() < ofHosts.stream().mapToInt(List::size).sum(); turn++) {
      for (List<List<Partition>> ofHost : ofHosts) {
        if (turn < ofHost.size()) {
          turns.add(ofHost.get(turn));
        }
      }
    }
    return turns;
  }

  private List<List<Partition>> cutOfHost(List<Partition> partitions) {
    List<List<Partition>> batches = new ArrayList<>();
    List<Partition> batch = new ArrayList<>();
    int points = 0;
    int bytes = 0;
    for (Partition whole : partitions) {
      // Only a partition that is larger than a batch is in several.
      for (Partition part : parts(whole)) {
        int size = part.bytes();
        if (!batch.isEmpty()
            && (points + part.points().size() > maxPoints || bytes + size > maxBytes)) {
          batches.add(batch);
          batch = new ArrayList<>();
          points = 0;
          bytes = 0;
        }
        batch.add(part);
        points += part.points().size();
        bytes += size;
      }
    }
    if (!batch.isEmpty()) {
      batches.add(batch);
    }
    return batches;
  }

  private List<Partition> parts(Partition whole) {
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

  /** Halves of a batch that the store finds too large; empty if it is a single point. */
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
