package io.kairoscope.kairosdb.queue;

import com.google.common.collect.SetMultimap;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * The tags of a query or delete, as records have tags: whoever looks for the series of a few sensors
 * among all that wait makes no strings of the others'.
 */
final class TagFilter {
  private final Map<ByteBuffer, Set<ByteBuffer>> wanted = new HashMap<>();
  // With those that no record can have.
  private final int names;

  /**
   * @param tags of each name one of its values; empty is all series
   */
  TagFilter(SetMultimap<String, String> tags) {
    names = tags.keySet().size();
    for (Map.Entry<String, Collection<String>> tag : tags.asMap().entrySet()) {
      Set<ByteBuffer> values = new HashSet<>();
      tag.getValue().forEach(value -> add(value, values));
      Set<ByteBuffer> name = new HashSet<>();
      add(tag.getKey(), name);
      name.forEach(one -> wanted.put(one, values));
    }
  }

  private static void add(String word, Set<ByteBuffer> to) {
    ByteSink encoded = new ByteSink();
    try {
      encoded.writeUTF(word);
      to.add(ByteBuffer.wrap(Arrays.copyOfRange(encoded.bytes, Short.BYTES, encoded.length)));
    } catch (IOException tooLong) {
      // Nor is it in any record.
    }
  }

  /** Whether all series have them. */
  boolean isEmpty() {
    return names == 0;
  }

  /** Whether the series of a record has them, as KairosDB means it. */
  boolean areIn(byte[] record, int tagsAt) {
    ByteBuffer word = ByteBuffer.wrap(record);
    int found = 0;
    int at = tagsAt + Integer.BYTES;
    for (int left = (int) SeriesRecords.number(record, tagsAt, Integer.BYTES); left > 0; left--) {
      Set<ByteBuffer> values = wanted.get(word(word, at));
      at = word.limit();
      boolean has = values != null && values.contains(word(word, at));
      if (values != null && !has) {
        return false;
      }
      found += has ? 1 : 0;
      at = SeriesRecords.string(record, at);
    }
    return found == names;
  }

  /** The string that begins there with its length. */
  private static ByteBuffer word(ByteBuffer word, int at) {
    int end = SeriesRecords.string(word.array(), at);
    return word.limit(end).position(at + Short.BYTES);
  }
}
