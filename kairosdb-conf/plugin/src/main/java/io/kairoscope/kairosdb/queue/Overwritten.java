package io.kairoscope.kairosdb.queue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.kairosdb.datastore.cassandra.RowSpec;

/**
 * Which points of a partition others of it overwrite. Of two writes with the same write time, which
 * is in milliseconds, the store keeps the larger value, and not the one that was put last.
 */
final class Overwritten {
  private Overwritten() {}

  /** For each point whether another is in its place; null if none is, as nearly always. */
  static boolean[] in(Partition partition, RowSpec spec) {
    List<Point> points = partition.points();
    long rowTime = partition.rowKey().getTimestamp();
    boolean rising = true;
    for (int i = 1; i < points.size() && rising; i++) {
      rising =
          spec.getColumnName(rowTime, points.get(i - 1).time())
              < spec.getColumnName(rowTime, points.get(i).time());
    }
    return rising ? null : find(points, rowTime, spec);
  }

  private static boolean[] find(List<Point> points, long rowTime, RowSpec spec) {
    boolean[] overwritten = new boolean[points.size()];
    Map<Integer, Integer> last = new HashMap<>();
    for (int i = 0; i < points.size(); i++) {
      int column = spec.getColumnName(rowTime, points.get(i).time());
      Integer other = last.get(column);
      if (other == null) {
        last.put(column, i);
      } else if (later(points.get(i), points.get(other))) {
        overwritten[other] = true;
        last.put(column, i);
      } else {
        overwritten[i] = true;
      }
    }
    return overwritten;
  }

  private static boolean later(Point one, Point other) {
    return one.takenAt() != other.takenAt()
        ? one.takenAt() > other.takenAt()
        : one.index() > other.index();
  }
}
