package io.kairoscope.kairosdb.queue;

import com.google.common.collect.SetMultimap;
import java.io.IOException;
import java.util.Map;

/**
 * What a delete covers of a metric that waits here while it was deleted on another node.
 *
 * @param startMs time of the first point, inclusive, ms since 1970
 * @param endMs time of the last point, inclusive
 * @param tags of each name one of its values; empty is all
 * @param takenBeforeMs only points that were taken up to then
 */
record Deleted(
    long startMs, long endMs, SetMultimap<String, String> tags, long takenBeforeMs)
    implements CoalescingQueue.Covered {

  @Override
  public boolean covers(PointFile.Reader loaded, int tagsAt) throws IOException {
    SeriesRecords one = new SeriesRecords(loaded.bytes(), loaded.length(), tagsAt);
    long time = one.time();
    return loaded.takenAt() <= takenBeforeMs
        && time >= startMs
        && time <= endMs
        && (tags.isEmpty() || has(one.series().tags()));
  }

  private boolean has(Map<String, String> pointTags) {
    return tags.asMap().entrySet().stream()
        .allMatch(tag -> tag.getValue().contains(pointTags.get(tag.getKey())));
  }
}
