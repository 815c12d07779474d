package io.kairoscope.kairosdb.door;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.kairoscope.kairosdb.queue.PointQueue;
import io.kairoscope.kairosdb.queue.RecordBuffer;
import io.kairoscope.kairosdb.queue.RefusedPointException;
import io.kairoscope.kairosdb.queue.SeriesBytes;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
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
  private static final String TAGS_TOO_LONG = ".tags are too long for a key of the store";
  // Of records: the queue is asked once for so many.
  private static final int AT_ONCE = 32 << 10;

  // In place of the kind of a point's first word: it has no words.
  private static final byte NO_ARRAY = 20;
  private static final byte NO_TIME = 21;
  private static final byte NO_VALUE = 22;
  // Beside the kind of a value: its type follows.
  private static final byte HAS_TYPE = 64;

  private final PointQueue queue;
  private final LargeRequests memory;
  private final long maxRecordBytes;
  private final JsonLexer lexer = new JsonLexer();
  private final Values values;
  private final SeriesBytes series = new SeriesBytes();
  // Points of objects that are complete, on their way to the queue.
  private final RecordBuffer records = new RecordBuffer();

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
  private int tagBytes;
  private String tagError;
  private long replaced;

  private Errors errors;
  private int metricIndex;
  private long taken;
  private long refused;
  private long postponed;
  private long reserved;
  private long recordBytes;

  /** A member of an object: what it is and where it stands; kind 0 if it is not there. */
  private static final class Word {
    byte kind;
    int start;
    int end;

    boolean given() {
      return kind != 0 && kind != JsonLexer.NULL;
    }
  }

  /**
   * @param maxRecordBytes that the points of one request may have in the queue's file, to some KB
   */
  PointsReader(
      PointQueue queue,
      KairosDataPointFactory factories,
      LargeRequests memory,
      long maxRecordBytes) {
    this.queue = queue;
    this.memory = memory;
    this.maxRecordBytes = maxRecordBytes;
    values = new Values(factories);
  }

  /** Points of the last request that are in the queue. */
  long taken() {
    return taken;
  }

  /** Points of the last request that are not, as something is wrong with them or their number. */
  long refused() {
    return refused;
  }

  /** Those of them that may come later, as their series are new and too many came. */
  long postponed() {
    return postponed;
  }

  /** How many names and values of tags there is room for. */
  int tagRoom() {
    return series.room();
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
    postponed = 0;
    reserved = 0;
    recordBytes = 0;
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
      try {
        // Also of a body of which the rest cannot be read.
        flush();
      } finally {
        finish();
      }
    }
  }

  private void finish() {
    lexer.finish();
    memory.give(reserved);
    errors = null;
    if (kinds.length > KEPT_WORDS) {
      kinds = new byte[512];
      ends = new int[512];
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
    series.clearTags();
    tagError = null;
    replaced = 0;
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
    series.clearTags();
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
      tagError = TAGS_TOO_LONG;
      lexer.textEnd = start;
      return;
    }
    boolean text = kind != JsonLexer.NULL && kind != JsonLexer.TREE;
    if (!text && tagError == null) {
      tagError =
          ".tag[" + series.words() / 2 + "]." + what
              + (kind == JsonLexer.NULL ? " may not be null." : " must be a string.");
    }
    try {
      series.tag(lexer.text, start, text ? lexer.textEnd : start);
    } catch (RefusedPointException tooLong) {
      tagError = TAGS_TOO_LONG;
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
  private void put() throws TooLargeException {
    boolean single = (time.given() || timestamp.given()) && value.kind != 0;
    long count = count() + (single ? 1 : 0) + replaced;
    if (!isNamed()) {
      boolean none = !name.given() || name.kind == JsonLexer.TREE;
      wrong(count, none ? ".name may not be null." : ".name may not be empty.");
      return;
    }
    if (replaced > 0) {
      wrong(count, ".datapoints is there twice.");
      return;
    }
    if (series.words() == 0 && tagError == null && !skipValidate) {
      wrong(count, ".tags count must be greater than or equal to 1.");
      return;
    }
    if (!sortTags()) {
      wrong(count, tagError);
      return;
    }
    int ttlS = 0;
    Values.Type itsType = null;
    try {
      series.metric(lexer.text, name.start, name.end);
      if (ttl.given()) {
        ttlS = values.ttl(ttl.kind, lexer.text, ttl.start, ttl.end);
      }
      if (type.given()) {
        itsType = type(type.kind, type.start, type.end);
      }
    } catch (Refusal | RefusedPointException error) {
      wrong(count, ": " + error.getMessage());
      return;
    }
    bound();
    records.source(metricIndex);
    single(itsType, ttlS);
    several(itsType, ttlS);
    if (records.length() > AT_ONCE) {
      flush();
    }
  }

  /** Has the queue take what is complete. */
  private void flush() {
    try {
      queue.admit(records, (why, record) -> postponed(record, why));
      recordBytes += records.length();
      if (records.count() > 0) {
        queue.put(records);
      }
    } finally {
      taken += records.taken();
      records.clear();
    }
  }

  /** Else a small body, with long tags and many points, would fill the queue's file. */
  private void bound() throws TooLargeException {
    if (recordBytes > maxRecordBytes) {
      throw new TooLargeException(
          "The points of the request have more than "
              + (maxRecordBytes >> 20)
              + " MB in the queue, each with its metric and tags; send less at a time");
    }
  }

  private void single(Values.Type itsType, int ttlS) {
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
        records.begin(series, ttlS, ms);
        values.write(records, itsType, value.kind, lexer.text, value.start, value.end);
        queue.add(records);
      } catch (Refusal | RefusedPointException error) {
        wrong(1, ": " + error.getMessage());
      }
    }
  }

  private void several(Values.Type itsType, int ttlS) throws TooLargeException {
    byte[] text = lexer.text;
    int start = wordsStart;
    int index = 0;
    for (int i = 0; i < words; index++) {
      bound();
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
        Values.Type ofPoint =
            hasType && kinds[i + 2] != JsonLexer.NULL
                ? type(kinds[i + 2], valueEnd, typeEnd)
                : itsType;
        records.begin(series, ttlS, ms);
        values.write(records, ofPoint, (byte) (valueKind & ~HAS_TYPE), text, end, valueEnd);
        queue.add(records);
      } catch (Refusal | RefusedPointException error) {
        wrongPoint(index, ": " + error.getMessage());
      }
      if (records.length() > AT_ONCE) {
        flush();
      }
      start = typeEnd;
      i += hasType ? 3 : 2;
    }
  }

  private Values.Type type(byte kind, int start, int end) throws Refusal {
    if (kind == JsonLexer.TREE) {
      throw new Refusal("type must be a string");
    }
    return values.type(lexer.text, start, end);
  }

  private long count() {
    long count = 0;
    for (int i = 0; i < words; count++) {
      i += kinds[i] >= NO_ARRAY ? 1 : (kinds[i + 1] & HAS_TYPE) != 0 ? 3 : 2;
    }
    return count;
  }

  /** Brings the tags into the order of a record; false if they are wrong. */
  private boolean sortTags() {
    if (tagError != null) {
      return false;
    }
    for (int i = 0; i < series.words() && !skipValidate; i++) {
      if (series.isEmpty(i)) {
        tagError =
            ".tag["
                + (i % 2 == 0 ? i / 2 + "].name" : shown(series.text(i - 1)) + "].value")
                + " may not be empty.";
        return false;
      }
    }
    if (!series.sort()) {
      tagError = ".tags has a name twice.";
      return false;
    }
    return true;
  }

  private void postponed(int record, String why) {
    postponed++;
    refused++;
    errors.add(
        errors.isNaming()
            ? context(records.sourceOf(record), records.metricOf(record)) + ": " + why
            : why);
  }

  private void wrong(long points, String what) {
    refused += points;
    errors.add(errors.isNaming() ? context() + what : what);
  }

  private void wrongPoint(int index, String what) {
    refused++;
    errors.add(errors.isNaming() ? context() + ".datapoints[" + index + "]" + what : what);
  }

  private boolean isNamed() {
    return name.given() && name.kind != JsonLexer.TREE && name.end > name.start;
  }

  private String context() {
    return isNamed()
        ? context(metricIndex, new String(lexer.text, name.start, name.end - name.start, UTF_8))
        : "metric[" + metricIndex + "]";
  }

  private static String context(int metric, String name) {
    return "metric[" + metric + "](name=" + shown(name) + ")";
  }

  private static String shown(String name) {
    return name.length() <= SHOWN_NAME ? name : name.substring(0, SHOWN_NAME) + "…";
  }
}
