package io.kairoscope.kairosdb.queue;

import com.google.common.hash.Hashing;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.function.LongPredicate;

/**
 * Points as KairosDB's own serializer (DataPointEventSerializer) writes them to its queue's file,
 * one behind the other: metric, time to live, time, type, value, number of tags, tags. One for each
 * thread, used again and again: that serializer makes four objects and copies the bytes twice for
 * each point.
 *
 * <p>A record is begun, its type and value are written, and it is ended ({@link PointQueue#add}). One
 * that is not ended is none, and the next takes its place.
 */
public final class RecordBuffer extends ByteSink {
  // The limit of the store is 65,535, for a partition's key and for columns of the row key index.
  // Besides metric, type and tags a key has the time of the row and a few zeros.
  private static final int MAX_KEY_BYTES = 65_000;
  // Names and values are objects wherever a series is known, which caches count by series.
  private static final int MAX_TAGS = 1_000;
  // Half of what Cassandra takes as a mutation by default (half a commit log segment).
  private static final int MAX_VALUE_BYTES = 8 << 20;
  private static final int KEPT_BYTES = 256 << 10;
  // Of an empty string.
  private static final int NO_NAME = 2;

  private SeriesBytes series;
  private int source;
  private int ttlS;
  private long time;
  private int typeAt;
  private int valueAt;

  // Those that are ended.
  private int count;
  private int[] ends = new int[128];
  private int[] tagsAt = new int[128];
  private long[] keys = new long[128];
  private int[] sources = new int[128];
  private int taken;

  /** Forgets all records. */
  public void clear() {
    count = 0;
    taken = 0;
    length = 0;
    if (bytes.length > KEPT_BYTES) {
      bytes = new byte[1 << 9];
    }
  }

  /** By which number the sender knows what the next records are of. */
  public void source(int number) {
    source = number;
  }

  /**
   * Begins a record; what follows is its type and its value.
   *
   * @param of metric and tags, which must not change until it is ended
   * @param ttlS time to live in seconds; 0 is "none given"
   * @param timeMs ms since 1970
   */
  public void begin(SeriesBytes of, int ttlS, long timeMs) {
    series = of;
    this.ttlS = ttlS;
    time = timeMs;
    length = from(count);
    write(of.metric.bytes, 0, of.metric.length);
    writeInt(ttlS);
    writeLong(timeMs);
    typeAt = length;
  }

  /** The name of the store's type, before the value. */
  public void type(String dataStoreType) throws IOException {
    writeUTF(dataStoreType);
    valueAt = length;
  }

  /** The same, in UTF-8 of which each character has one byte. */
  public void type(byte[] dataStoreType) {
    writeShort(dataStoreType.length);
    write(dataStoreType);
    valueAt = length;
  }

  /**
   * Completes the record that was begun.
   *
   * @throws RefusedPointException if no store can ever hold it
   */
  public void end() throws RefusedPointException {
    int start = from(count);
    ByteSink metric = series.metric;
    ByteSink tags = series.tags;
    if (metric.length == NO_NAME) {
      throw new RefusedPointException("a metric without a name");
    }
    // Their number comes first.
    int tagCount = (int) SeriesRecords.number(tags.bytes, 0, Integer.BYTES);
    if (tagCount > MAX_TAGS) {
      throw new RefusedPointException("more than 1,000 tags");
    }
    int seriesBytes = valueAt - typeAt + tags.length;
    int keyBytes = metric.length + seriesBytes;
    // The index has tags as a map of CQL, with four bytes for each length; the record has two.
    int indexBytes = seriesBytes + tagCount * 2 * Short.BYTES;
    // Characters that the key escapes are counted twice at most.
    if (indexBytes > MAX_KEY_BYTES
        || keyBytes * 2 > MAX_KEY_BYTES && keyBytes + escaped(tags) > MAX_KEY_BYTES) {
      throw new RefusedPointException("metric and tags are too long for a key of the store");
    }
    if (length - valueAt > MAX_VALUE_BYTES) {
      throw new RefusedPointException("a value of more than " + MAX_VALUE_BYTES + " bytes");
    }
    if (count == ends.length) {
      ends = Arrays.copyOf(ends, 2 * count);
      tagsAt = Arrays.copyOf(tagsAt, 2 * count);
      keys = Arrays.copyOf(keys, 2 * count);
      sources = Arrays.copyOf(sources, 2 * count);
    }
    tagsAt[count] = length - start;
    keys[count] =
        key(
            hash(metric.bytes, 0, metric.length),
            hash(bytes, typeAt, valueAt - typeAt),
            hash(tags.bytes, 0, tags.length));
    write(tags.bytes, 0, tags.length);
    sources[count] = source;
    ends[count++] = length;
  }

  /** Forgets the record that was ended last. */
  public void drop() {
    length = from(--count);
  }

  /** Takes a record out. */
  void remove(int record) {
    int from = from(record);
    int to = ends[record];
    System.arraycopy(bytes, to, bytes, from, length - to);
    length -= to - from;
    count--;
    for (int i = record; i < count; i++) {
      ends[i] = ends[i + 1] - (to - from);
      tagsAt[i] = tagsAt[i + 1];
      keys[i] = keys[i + 1];
      sources[i] = sources[i + 1];
    }
  }

  /** What KairosDB's key escapes in names and values of tags: ':' and '='. */
  private static int escaped(ByteSink tags) {
    int escaped = 0;
    for (int i = 0; i < tags.length; i++) {
      escaped += tags.bytes[i] == ':' || tags.bytes[i] == '=' ? 1 : 0;
    }
    return escaped;
  }

  /**
   * A number by which points of a series are found again: its upper half is the metric's. Two series
   * may have the same, as rarely as it happens with 64 bits.
   */
  static long key(
      byte[] record, int length, int metricBytes, int typeAt, int typeBytes, int tagsAt) {
    return key(
        hash(record, 0, metricBytes),
        hash(record, typeAt, typeBytes),
        hash(record, tagsAt, length - tagsAt));
  }

  private static long key(long metric, long type, long tags) {
    long rest = 31 * type + tags;
    return metric << 32 | (rest ^ rest >>> 32) & 0xffff_ffffL;
  }

  /** The upper half of the keys of all series of a metric. */
  static int metricKey(String metric) throws IOException {
    ByteSink name = new ByteSink();
    name.writeUTF(metric);
    return (int) hash(name.bytes, 0, name.length);
  }

  /** Whether a key is of a series of this metric, or of one with the same hash. */
  static LongPredicate ofMetric(String metric) throws IOException {
    int hash = metricKey(metric);
    return key -> metricOf(key) == hash;
  }

  static int metricOf(long key) {
    return (int) (key >>> 32);
  }

  private static long hash(byte[] bytes, int from, int count) {
    return Hashing.farmHashFingerprint64().hashBytes(bytes, from, count).asLong();
  }

  /** How many records there are. */
  public int count() {
    return count;
  }

  /** Of these, how many of the first are in the queue's file. */
  public int taken() {
    return taken;
  }

  void take() {
    taken++;
  }

  /** All records, one behind the other. */
  public byte[] bytes() {
    return bytes;
  }

  /** Bytes of all records, and of one that was begun. */
  public int length() {
    return length;
  }

  /** Where a record begins. */
  int from(int record) {
    return record == 0 ? 0 : ends[record - 1];
  }

  int length(int record) {
    return ends[record] - from(record);
  }

  /** Where the tags begin in a record. */
  int tagsAt(int record) {
    return tagsAt[record];
  }

  long key(int record) {
    return keys[record];
  }

  /** By which number the sender knows what a record is of. */
  public int sourceOf(int record) {
    return sources[record];
  }

  /** Name of a record's metric, for people. */
  public String metricOf(int record) {
    int at = from(record);
    int length = (bytes[at] & 0xff) << 8 | bytes[at + 1] & 0xff;
    return new String(bytes, at + Short.BYTES, length, StandardCharsets.UTF_8);
  }

  /** Of the record that was begun last, as it came with the point. */
  public int ttlS() {
    return ttlS;
  }

  /** Of the record that was begun last, ms since 1970. */
  public long time() {
    return time;
  }
}
