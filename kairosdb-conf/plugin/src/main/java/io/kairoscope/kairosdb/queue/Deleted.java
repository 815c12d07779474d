package io.kairoscope.kairosdb.queue;

import com.google.common.collect.SetMultimap;
import java.io.IOException;
import java.util.Map;

/**
 * What a delete covers of a metric that waits here while it was deleted on another node.
 *
 * @param metric its name; the queue knows points by a hash of it
 * @param startMs time of the first point, inclusive, ms since 1970
 * @param endMs time of the last point, inclusive
 * @param tags of each name one of its values; empty is all
 * @param takenBeforeMs only points that were taken up to then
 */
record Deleted(
    String metric, long startMs, long endMs, SetMultimap<String, String> tags, long takenBeforeMs)
    implements CoalescingQueue.Covered {

  @Override
  public boolean covers(PointFile.Reader loaded, int tagsAt) throws IOException {
    SeriesRecords one = new SeriesRecords(loaded.bytes(), loaded.length(), tagsAt);
    long time = one.time();
    if (loaded.takenAt() > takenBeforeMs || time < startMs || time > endMs) {
      return false;
    }
    Series series = one.series();
    return series.metric().equals(metric) && have(series.tags(), tags);
  }

  /**
   * Whether a series is one of those that KairosDB means by the tags of a query or delete.
   *
   * @param wanted of each name one of its values; empty is all
   */
  static boolean have(Map<String, String> tags, SetMultimap<String, String> wanted) {
    return wanted.asMap().entrySet().stream()
        .allMatch(tag -> tag.getValue().contains(tags.get(tag.getKey())));
  }
}
