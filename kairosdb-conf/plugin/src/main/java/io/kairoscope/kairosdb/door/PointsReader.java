package io.kairoscope.kairosdb.door;

import com.google.common.collect.ImmutableSortedMap;
import io.kairoscope.kairosdb.queue.PointQueue;
import io.kairoscope.kairosdb.queue.RefusedPointException;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.SortedMap;
import org.kairosdb.core.KairosDataPointFactory;

/**
 * Reads a request's points, and puts each into the queue when its metric object is complete.
 *
 * <p>It takes what KairosDB's DataPointsParser takes, with the same meaning, but for numbers that
 * the latter turns into others ({@link Numbers}). A bad point does not keep the others of its
 * request out.
 *
 * <p>One for each thread, used again for all its requests: what it needs is there already.
 */
final class PointsReader {
  private static final int KEPT_WORDS = 8 << 10;
  // Above this a request asks for its memory.
  private static final long UNASKED = 256 << 10;
  private static final int BYTES_PER_WORD = 5;
  private static final int SHOWN_NAME = 200;
  // More than a key of the store can have; each name and value counts for two, as in the record.
  private static final int TAG_BYTES = 128 << 10;

  // In place of the kind of a point's first word: it has no words.
  private static final byte NO_ARRAY = 20;
  private static final byte NO_TIME = 21;
  private static final byte NO_VALUE = 22;
  // Beside the kind of a value: its type follows.
  private static final byte HAS_TYPE = 64;

  private final PointQueue queue;
  private final LargeRequests memory;
  private final JsonLexer lexer = new JsonLexer();
  private final Values values;
  private final Texts texts = new Texts();

  // The words of the points of this object, in order: time, value and, if it has one, type.
  private byte[] kinds = new byte[512];
  private int[] ends = new int[512];
  private int words;
  private int wordsStart;

  private final Word name = new Word();
  private final Word type = new Word();
  private final Word ttl = new Word();
  private final Word time = new Word();
  private final Word timestamp = new Word();
  private final Word value = new Word();
  private boolean skipValidate;
  private String[] tags = new String[16];
  private int tagWords;
  private int tagBytes;
  private String tagError;
  private long replaced;
  private String[] lastTags = new String[0];
  private SortedMap<String, String> lastMap;

  private Errors errors;
  private int metricIndex;
  private String metricName;
  private long taken;
  private long refused;
  private long reserved;

  /** A member of an object: what it is and where it stands; kind 0 if it is not there. */
  private static final class Word {
    byte kind;
    int start;
    int end;

    boolean given() {
      return kind != 0 && kind != JsonLexer.NULL;
    }
  }

  PointsReader(PointQueue queue, KairosDataPointFactory factories, LargeRequests memory) {
    this.queue = queue;
    this.memory = memory;
    values = new Values(factories);
  }

  /** Points of the last request that are in the queue. */
  long taken() {
    return taken;
  }

  /** Points of the last request that are not, as something is wrong with them. */
  long refused() {
    return refused;
  }

  /** How many names and values of tags there is room for. */
  int tagRoom() {
    return tags.length;
  }

  /**
   * Reads a body to its end.
   *
   * @throws MalformedException if the rest of it cannot be understood
   */
  void read(InputStream body, Errors errors) throws IOException {
    this.errors = errors;
    taken = 0;
    refused = 0;
    reserved = 0;
    metricIndex = 0;
    try {
      lexer.begin(body);
      int first = lexer.peek();
      if (first == '[') {
        lexer.skip();
        if (!lexer.take(']')) {
          do {
            metric();
            metricIndex++;
          } while (lexer.more(']'));
        }
      } else if (first == '{') {
        metric();
      } else {
        throw first < 0
            ? lexer.endOfInput()
            : new MalformedException("Invalid start of json.");
      }
      // KairosDB would pass over it, and answer as if it had been taken.
      if (lexer.peek() >= 0) {
        throw lexer.malformed("the end");
      }
    } finally {
      lexer.finish();
      memory.give(reserved);
      this.errors = null;
      if (kinds.length > KEPT_WORDS) {
        kinds = new byte[512];
        ends = new int[512];
      }
    }
  }

  private void metric() throws IOException {
    begin();
    if (!lexer.take('{')) {
      if (lexer.peek() < 0) {
        throw lexer.endOfInput();
      }
      lexer.skipValue();
      wrong(1, " must be an object");
      return;
    }
    if (!lexer.take('}')) {
      do {
        member();
      } while (lexer.more('}'));
    }
    put();
  }

  private void begin() {
    lexer.textEnd = 0;
    words = 0;
    wordsStart = 0;
    name.kind = 0;
    type.kind = 0;
    ttl.kind = 0;
    time.kind = 0;
    timestamp.kind = 0;
    value.kind = 0;
    skipValidate = false;
    tagWords = 0;
    tagError = null;
    replaced = 0;
    metricName = null;
  }

  private void member() throws IOException {
    int start = lexer.textEnd;
    lexer.name();
    byte[] text = lexer.text;
    int length = lexer.textEnd - start;
    byte first = length == 0 ? 0 : text[start];
    Word word = null;
    if (first == 't') {
      if (length == 4 && is(start, "tags")) {
        lexer.textEnd = start;
        tags();
        return;
      }
      word =
          length == 4 && is(start, "type")
              ? type
              : length == 4 && is(start, "time")
                  ? time
                  : length == 9 && is(start, "timestamp")
                      ? timestamp
                      : length == 3 && is(start, "ttl") ? ttl : null;
    } else if (length == 4 && is(start, "name")) {
      word = name;
    } else if (length == 5 && is(start, "value")) {
      word = value;
    } else if (length == 10 && is(start, "datapoints")) {
      lexer.textEnd = start;
      points();
      return;
    } else if (length == 13 && is(start, "skip_validate")) {
      lexer.textEnd = start;
      byte kind = lexer.value();
      skipValidate =
          kind == JsonLexer.TRUE || kind == JsonLexer.STRING && lexer.textEnd == start + 4
              && (lexer.text[start] | 0x20) == 't';
      lexer.textEnd = start;
      return;
    }
    lexer.textEnd = start;
    if (word == null) {
      lexer.skipValue();
    } else {
      word.start = start;
      word.kind = lexer.value();
      word.end = lexer.textEnd;
      remember(0);
    }
  }

  private boolean is(int start, String word) {
    byte[] text = lexer.text;
    for (int i = 0; i < word.length(); i++) {
      if (text[start + i] != word.charAt(i)) {
        return false;
      }
    }
    return true;
  }

  /** An object of names and values, or, as Gson's maps, an array of pairs. */
  private void tags() throws IOException {
    tagWords = 0;
    tagBytes = 0;
    tagError = null;
    if (lexer.take('{')) {
      if (!lexer.take('}')) {
        do {
          int start = lexer.textEnd;
          lexer.name();
          tagWord(JsonLexer.STRING, start, "name");
          start = lexer.textEnd;
          tagWord(lexer.value(), start, "value");
        } while (lexer.more('}'));
      }
    } else if (lexer.take('[')) {
      if (!lexer.take(']')) {
        do {
          if (!lexer.take('[')) {
            throw lexer.malformed("a name and a value");
          }
          int start = lexer.textEnd;
          tagWord(lexer.value(), start, "name");
          if (!lexer.more(']')) {
            throw lexer.malformed("a value");
          }
          start = lexer.textEnd;
          tagWord(lexer.value(), start, "value");
          if (lexer.more(']')) {
            throw lexer.malformed("']'");
          }
        } while (lexer.more(']'));
      }
    } else {
      int start = lexer.textEnd;
      byte kind = lexer.value();
      lexer.textEnd = start;
      if (kind != JsonLexer.NULL) {
        tagError = ".tags must be an object";
      }
    }
  }

  private void tagWord(byte kind, int start, String what) {
    tagBytes += Math.min(TAG_BYTES, lexer.textEnd - start + Short.BYTES);
    if (tagBytes > TAG_BYTES) {
      // Not kept: millions of them would be the end of the process.
      tagBytes = TAG_BYTES;
      tagError = ".tags are too long for a key of the store";
      lexer.textEnd = start;
      return;
    }
    if (tagWords == tags.length) {
      tags = Arrays.copyOf(tags, 2 * tagWords);
    }
    if (kind == JsonLexer.NULL || kind == JsonLexer.TREE) {
      if (tagError == null) {
        tagError =
            ".tag[" + tagWords / 2 + "]." + what
                + (kind == JsonLexer.NULL ? " may not be null." : " must be a string.");
      }
      tags[tagWords++] = "";
    } else {
      tags[tagWords++] = texts.of(lexer.text, start, lexer.textEnd);
    }
    lexer.textEnd = start;
  }

  private void points() throws IOException {
    // KairosDB would take the last array, and answer as if it had taken all.
    replaced += count();
    words = 0;
    wordsStart = lexer.textEnd;
    if (!lexer.take('[')) {
      int start = lexer.textEnd;
      byte kind = lexer.value();
      lexer.textEnd = start;
      if (kind != JsonLexer.NULL) {
        word(NO_ARRAY);
      }
      return;
    }
    if (!lexer.take(']')) {
      do {
        point();
      } while (lexer.more(']'));
    }
  }

  private void point() throws IOException {
    if (!lexer.take('[')) {
      lexer.skipValue();
      word(NO_ARRAY);
      return;
    }
    if (lexer.take(']')) {
      word(NO_TIME);
      return;
    }
    int start = lexer.textEnd;
    byte kind = lexer.value();
    if (!lexer.more(']')) {
      lexer.textEnd = start;
      word(NO_VALUE);
      return;
    }
    word(kind);
    word(lexer.value());
    if (lexer.more(']')) {
      // Third, the type: the kind of the value before it says that there is one.
      kinds[words - 1] |= HAS_TYPE;
      word(lexer.value());
      while (lexer.more(']')) {
        lexer.skipValue();
      }
    }
  }

  private void word(byte kind) throws TooLargeException {
    if (words == kinds.length) {
      remember((long) words * BYTES_PER_WORD);
      kinds = Arrays.copyOf(kinds, 2 * words);
      ends = Arrays.copyOf(ends, 2 * words);
    }
    kinds[words] = kind;
    ends[words++] = lexer.textEnd;
    remember(0);
  }

  /** Asks for the memory that this request has, if that is much; the text doubles when it grows. */
  private void remember(long more) throws TooLargeException {
    long needed = 2L * lexer.text.length + (long) kinds.length * BYTES_PER_WORD + more;
    if (needed > UNASKED + reserved) {
      long step = Math.max(needed - reserved, UNASKED);
      if (reserved + step > memory.limit()) {
        throw new TooLargeException("A metric of the request has too many points for one request");
      }
      memory.take(step);
      reserved += step;
    }
  }

  /** The object is complete. */
  private void put() {
    boolean single = (time.given() || timestamp.given()) && value.kind != 0;
    long count = count() + (single ? 1 : 0) + replaced;
    if (name.given() && name.kind != JsonLexer.TREE) {
      metricName = texts.of(lexer.text, name.start, name.end);
    }
    if (metricName == null || metricName.isEmpty()) {
      wrong(count, metricName == null ? ".name may not be null." : ".name may not be empty.");
      return;
    }
    if (replaced > 0) {
      wrong(count, ".datapoints is there twice.");
      return;
    }
    if (tagWords == 0 && tagError == null && !skipValidate) {
      wrong(count, ".tags count must be greater than or equal to 1.");
      return;
    }
    SortedMap<String, String> map = tagError == null ? map() : null;
    if (map == null) {
      wrong(count, tagError);
      return;
    }
    int ttlS = 0;
    String typeName = null;
    try {
      if (ttl.given()) {
        ttlS = values.ttl(ttl.kind, lexer.text, ttl.start, ttl.end);
      }
      if (type.given()) {
        typeName = typeName(type.kind, type.start, type.end);
      }
    } catch (Refusal error) {
      wrong(count, ": " + error.getMessage());
      return;
    }
    single(map, typeName, ttlS);
    several(map, typeName, ttlS);
  }

  private void single(SortedMap<String, String> map, String typeName, int ttlS) {
    Word at = time.given() ? time : timestamp;
    if (at.given() && !value.given()) {
      if (!skipValidate) {
        wrong(1, ".value may not be " + (value.kind == 0 ? "null." : "empty."));
      }
    } else if (value.given() && !at.given()) {
      if (!skipValidate) {
        wrong(1, ".timestamp may not be null.");
      }
    } else if (at.given()) {
      try {
        long ms = values.timestamp(at.kind, lexer.text, at.start, at.end);
        queue.put(
            metricName,
            map,
            values.point(ms, typeName, value.kind, lexer.text, value.start, value.end),
            ttlS);
        taken++;
      } catch (Refusal | RefusedPointException error) {
        wrong(1, ": " + error.getMessage());
      }
    }
  }

  private void several(SortedMap<String, String> map, String typeName, int ttlS) {
    byte[] text = lexer.text;
    int start = wordsStart;
    int index = 0;
    for (int i = 0; i < words; index++) {
      byte kind = kinds[i];
      int end = ends[i];
      if (kind >= NO_ARRAY) {
        i++;
        start = end;
        wrongPoint(
            index,
            kind == NO_ARRAY
                ? " must be an array of timestamp and value."
                : kind == NO_TIME
                    ? ".timestamp cannot be null or empty."
                    : ".value cannot be null or empty.");
        continue;
      }
      byte valueKind = kinds[i + 1];
      int valueEnd = ends[i + 1];
      boolean hasType = (valueKind & HAS_TYPE) != 0;
      int typeEnd = hasType ? ends[i + 2] : valueEnd;
      try {
        long ms = values.timestamp(kind, text, start, end);
        String itsType =
            hasType && kinds[i + 2] != JsonLexer.NULL
                ? typeName(kinds[i + 2], valueEnd, typeEnd)
                : typeName;
        queue.put(
            metricName,
            map,
            values.point(ms, itsType, (byte) (valueKind & ~HAS_TYPE), text, end, valueEnd),
            ttlS);
        taken++;
      } catch (Refusal | RefusedPointException error) {
        wrongPoint(index, ": " + error.getMessage());
      }
      start = typeEnd;
      i += hasType ? 3 : 2;
    }
  }

  private String typeName(byte kind, int start, int end) throws Refusal {
    if (kind == JsonLexer.TREE) {
      throw new Refusal("type must be a string");
    }
    return texts.of(lexer.text, start, end);
  }

  private long count() {
    long count = 0;
    for (int i = 0; i < words; count++) {
      i += kinds[i] >= NO_ARRAY ? 1 : (kinds[i + 1] & HAS_TYPE) != 0 ? 3 : 2;
    }
    return count;
  }

  /** The tags; the same object again for the same tags. Null if they are wrong. */
  private SortedMap<String, String> map() {
    if (sameAsLast()) {
      return lastMap;
    }
    for (int i = 0; i < tagWords && !skipValidate; i += 2) {
      if (tags[i].isEmpty() || tags[i + 1].isEmpty()) {
        tagError =
            ".tag[" + (tags[i].isEmpty() ? i / 2 + "].name" : shown(tags[i]) + "].value")
                + " may not be empty.";
        return null;
      }
    }
    SortedMap<String, String> map;
    try {
      map = made();
    } catch (IllegalArgumentException twice) {
      tagError = ".tags has a name twice.";
      return null;
    }
    if (!skipValidate) {
      lastTags = Arrays.copyOf(tags, tagWords);
      lastMap = map;
    }
    return map;
  }

  private SortedMap<String, String> made() {
    String[] t = tags;
    switch (tagWords) {
      case 2:
        return ImmutableSortedMap.of(t[0], t[1]);
      case 4:
        return ImmutableSortedMap.of(t[0], t[1], t[2], t[3]);
      case 6:
        return ImmutableSortedMap.of(t[0], t[1], t[2], t[3], t[4], t[5]);
      default:
        ImmutableSortedMap.Builder<String, String> builder = ImmutableSortedMap.naturalOrder();
        for (int i = 0; i < tagWords; i += 2) {
          builder.put(t[i], t[i + 1]);
        }
        return builder.build();
    }
  }

  private boolean sameAsLast() {
    if (lastMap == null || tagWords != lastTags.length || skipValidate) {
      return false;
    }
    for (int i = tagWords - 1; i >= 0; i--) {
      // Mostly one object; and if not, mostly of another value.
      if (tags[i] != lastTags[i]) {
        return false;
      }
    }
    return true;
  }

  private void wrong(long points, String what) {
    refused += points;
    errors.add(errors.isNaming() ? context() + what : what);
  }

  private void wrongPoint(int index, String what) {
    refused++;
    errors.add(errors.isNaming() ? context() + ".datapoints[" + index + "]" + what : what);
  }

  private String context() {
    String context = "metric[" + metricIndex + "]";
    return metricName == null || metricName.isEmpty()
        ? context
        : context + "(name=" + shown(metricName) + ")";
  }

  private static String shown(String name) {
    return name.length() <= SHOWN_NAME ? name : name.substring(0, SHOWN_NAME) + "…";
  }
}
