package io.kairoscope.kairosdb.queue;

import com.google.common.hash.Hashing;
import java.util.Arrays;
import java.util.SortedMap;

/**
 * What points must share to be of one partition of the store (in each row of three weeks): the
 * metric, the tags and the type of the values.
 *
 * <p>Every point brings one, to look its series up by. So it is compared by an array of its words:
 * the sorted maps that KairosDB gives us make an object of each tag when they are hashed or
 * compared, which took a quarter of KairosDB's CPU time.
 */
final class Series {
  // The series, a sorted map, an array and the place in a hash map, on a 64-bit JVM; generous.
  private static final int BYTES = 512;
  // A string and its array, without the characters.
  private static final int BYTES_PER_STRING = 56;

  private final String metric;
  private final SortedMap<String, String> tags;
  private final String type;
  // Metric, type, names of the tags, their values.
  private final String[] words;
  private final int hash;

  Series(String metric, SortedMap<String, String> tags, String type) {
    this.metric = metric;
    this.tags = tags;
    this.type = type;
    words = new String[2 + 2 * tags.size()];
    words[0] = metric;
    words[1] = type;
    int next = 2;
    for (String name : tags.keySet()) {
      words[next++] = name;
    }
    for (String value : tags.values()) {
      words[next++] = value;
    }
    // Names that differ in a digit must not be neighbours, in a hash map or in a window.
    hash = Hashing.murmur3_32().hashInt(Arrays.hashCode(words)).asInt();
  }

  String metric() {
    return metric;
  }

  SortedMap<String, String> tags() {
    return tags;
  }

  String type() {
    return type;
  }

  /** Of the metric, the type, and all names and values of tags. */
  int characters() {
    int characters = 0;
    for (String word : words) {
      characters += word.length();
    }
    return characters;
  }

  /** Heap that the series takes while points of it wait, from above. */
  int bytes() {
    return BYTES + words.length * BYTES_PER_STRING + 2 * characters();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Series
        && hash == ((Series) other).hash
        && Arrays.equals(words, ((Series) other).words);
  }

  @Override
  public int hashCode() {
    return hash;
  }

  @Override
  public String toString() {
    return metric + tags + " of " + type;
  }
}
