package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.SortedMap;

/**
 * Metric and tags of points as their records have them ({@link RecordBuffer}), once for all points of
 * a series that come together. Used again and again: no string and no map is made for a series, as
 * the store's names are made of the records when these are released, by the window.
 */
public final class SeriesBytes {
  final ByteSink metric = new ByteSink();
  // Their number, and names and values by turns, sorted by name as Strings are.
  final ByteSink tags = new ByteSink();

  // Names and values in the order they came, and where each begins.
  private final ByteSink words = new ByteSink();
  private int[] starts = new int[16];
  private int count;

  /**
   * Takes a name, in UTF-8.
   *
   * @throws RefusedPointException if it is longer than any that can be stored
   */
  public void metric(byte[] utf8, int from, int to) throws RefusedPointException {
    metric.length = 0;
    try {
      metric.writeUTF(utf8, from, to);
    } catch (IOException tooLong) {
      throw new RefusedPointException("the name of the metric is " + tooLong.getMessage());
    }
  }

  /** Forgets the names and values. */
  public void clearTags() {
    words.length = 0;
    count = 0;
  }

  /**
   * Takes the next name or value of a tag, in UTF-8, by turns.
   *
   * @throws RefusedPointException if it is longer than any that can be stored; it is taken as empty
   */
  public void tag(byte[] utf8, int from, int to) throws RefusedPointException {
    if (count == starts.length) {
      starts = Arrays.copyOf(starts, 2 * count);
    }
    starts[count++] = words.length;
    try {
      words.writeUTF(utf8, from, to);
    } catch (IOException tooLong) {
      words.writeShort(0);
      throw new RefusedPointException("a tag is " + tooLong.getMessage());
    }
  }

  /** How many names and values there is room for. */
  public int room() {
    return starts.length;
  }

  /** How many names and values there are. */
  public int words() {
    return count;
  }

  /** Whether this name or value is empty. */
  public boolean isEmpty(int word) {
    return length(starts[word]) == 0;
  }

  /** A name or value, for people. */
  public String text(int word) {
    int start = starts[word];
    return new String(words.bytes, start + 2, length(start), StandardCharsets.UTF_8);
  }

  private int length(int start) {
    return (words.bytes[start] & 0xff) << 8 | words.bytes[start + 1] & 0xff;
  }

  /** Sorts the tags, when all are there; false if a name is there twice. */
  public boolean sort() {
    tags.length = 0;
    tags.writeInt(count / 2);
    boolean inOrder = true;
    for (int i = 2; i < count && inOrder; i += 2) {
      inOrder = compare(starts[i - 2], starts[i]) < 0;
    }
    if (inOrder) {
      tags.write(words.bytes, 0, words.length);
      return true;
    }
    Integer[] order = new Integer[count / 2];
    Arrays.setAll(order, pair -> 2 * pair);
    Arrays.sort(order, (one, other) -> compare(starts[one], starts[other]));
    for (int i = 0; i < order.length; i++) {
      if (i > 0 && compare(starts[order[i - 1]], starts[order[i]]) == 0) {
        return false;
      }
      int next = order[i] + 2;
      int from = starts[order[i]];
      tags.write(words.bytes, from, (next < count ? starts[next] : words.length) - from);
    }
    return true;
  }

  /** As String.compareTo. */
  private int compare(int one, int other) {
    byte[] bytes = words.bytes;
    int oneLength = length(one);
    int otherLength = length(other);
    for (int i = 2; i < 2 + Math.min(oneLength, otherLength); i++) {
      if (bytes[one + i] != bytes[other + i]) {
        return character(bytes[one + i]) - character(bytes[other + i]);
      }
    }
    return oneLength - otherLength;
  }

  /** Bytes of this encoding are in the order of its characters, but for 0, which has two. */
  private static int character(byte each) {
    return (each & 0xff) == 0xc0 ? 0 : each & 0xff;
  }

  /** Takes what is there as strings. */
  void set(String name, SortedMap<String, String> map) throws IOException {
    metric.length = 0;
    metric.writeUTF(name);
    tags.length = 0;
    tags.writeInt(map.size());
    for (Map.Entry<String, String> tag : map.entrySet()) {
      tags.writeUTF(tag.getKey());
      tags.writeUTF(tag.getValue());
    }
  }
}
