package io.kairoscope.kairosdb.queue;

import java.util.Map;
import java.util.SortedMap;

/**
 * What points must share to be of one partition of the store (in each row of three weeks): the
 * metric, the tags and the type of the values.
 */
record Series(String metric, SortedMap<String, String> tags, String type) {
  // A record, a sorted map, its entry and its place in a hash map, on a 64-bit JVM; generous.
  private static final int BYTES = 512;
  // A string and its array, without the characters.
  private static final int BYTES_PER_STRING = 56;

  /** Heap that the series takes while points of it wait, from above. */
  int bytes() {
    int bytes = BYTES + 2 * BYTES_PER_STRING + 2 * (metric.length() + type.length());
    for (Map.Entry<String, String> tag : tags.entrySet()) {
      bytes += 2 * BYTES_PER_STRING + 2 * (tag.getKey().length() + tag.getValue().length());
    }
    return bytes;
  }
}
