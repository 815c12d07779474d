package io.kairoscope.kairosdb.door;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * The last strings that were read, by their bytes: the names of tags, and often of metrics, are the
 * same few in every request. One object of each is neither made again nor hashed again.
 */
final class Texts {
  private static final int SIZE = 256;
  // What is longer is rarely the same.
  private static final int LONGEST = 40;

  // What misses is mostly a name that is never the same, and is not worth remembering.
  private static final int REMEMBERED_OF = 8;

  private int misses;
  private final byte[][] bytes = new byte[SIZE][];
  private final String[] texts = new String[SIZE];

  String of(byte[] from, int start, int end) {
    int length = end - start;
    if (length == 0 || length > LONGEST) {
      return new String(from, start, length, StandardCharsets.UTF_8);
    }
    // Of five places: enough to tell a few names apart, and all of it is compared below.
    int hash =
        length * 7
            + from[start] * 31
            + from[start + (length >> 1)] * 13
            + from[end - 1 - (length >> 2)] * 5
            + from[end - 1] * 101;
    int slot = (hash ^ hash >>> 8) & (SIZE - 1);
    byte[] known = bytes[slot];
    if (known != null
        && Arrays.equals(known, 0, known.length, from, start, end)) {
      return texts[slot];
    }
    String text = new String(from, start, length, StandardCharsets.UTF_8);
    if (known == null || ++misses % REMEMBERED_OF == 0) {
      bytes[slot] = Arrays.copyOfRange(from, start, end);
      texts[slot] = text;
    }
    return text;
  }
}
