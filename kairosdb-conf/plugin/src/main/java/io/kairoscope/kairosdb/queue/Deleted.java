package io.kairoscope.kairosdb.queue;

import java.io.IOException;

/**
 * What a delete covers of a metric that waits here while it was deleted on another node.
 *
 * @param metric its name; the queue knows points by a hash of it
 * @param startMs time of the first point, inclusive, ms since 1970
 * @param endMs time of the last point, inclusive
 * @param tags of its series
 * @param takenBeforeMs only points that were taken up to then
 */
record Deleted(
    String metric, long startMs, long endMs, TagFilter tags, long takenBeforeMs)
    implements CoalescingQueue.Covered {

  @Override
  public boolean covers(PointFile.Reader loaded, int tagsAt) throws IOException {
    SeriesRecords one = new SeriesRecords(loaded.bytes(), loaded.length(), tagsAt);
    long time = one.time();
    if (loaded.takenAt() > takenBeforeMs || time < startMs || time > endMs) {
      return false;
    }
    return one.series().metric().equals(metric) && tags.areIn(loaded.bytes(), tagsAt);
  }
}
