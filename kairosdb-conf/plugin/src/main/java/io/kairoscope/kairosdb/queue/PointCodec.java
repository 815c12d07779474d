package io.kairoscope.kairosdb.queue;

import static org.kairosdb.datastore.cassandra.CassandraDatastore.DATA_POINTS_ROW_KEY_SERIALIZER;

import com.google.common.base.Utf8;
import com.google.common.collect.ImmutableSortedMap;
import java.io.IOException;
import java.util.Map;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.KairosDataPointFactory;
import org.kairosdb.core.queue.DataPointEventSerializer;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;
import org.kairosdb.events.DataPointEvent;
import org.kairosdb.util.KDataInput;
import org.kairosdb.util.KDataOutput;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Between KairosDB's points and ours, and to and from the records of the queue file.
 *
 * <p>The records are those of KairosDB's own serializer, so that its queue processors and ours read
 * each other's files. Only its writing half is public; the reading half is here.
 */
final class PointCodec implements CoalescingQueue.Decoder {
  private static final Logger logger = LoggerFactory.getLogger(PointCodec.class);

  // The limit of the store is 65,535, for a partition's key and for a column of the row key index.
  private static final int MAX_KEY_BYTES = 65_000;
  // Half of what Cassandra takes as a mutation by default (half a commit log segment).
  private static final int MAX_VALUE_BYTES = 8 << 20;
  // Row time, zero bytes, the length of the type.
  private static final int KEY_OVERHEAD = 16;
  // Two lengths in a map, or two separators in a key. Characters that are escaped count twice.
  private static final int TAG_OVERHEAD = 8;
  private static final int MAX_BYTES_PER_CHAR = 3;

  private final DataPointEventSerializer serializer;
  private final KairosDataPointFactory factory;
  private final QueueStats stats;

  PointCodec(
      DataPointEventSerializer serializer, KairosDataPointFactory factory, QueueStats stats) {
    this.serializer = serializer;
    this.factory = factory;
    this.stats = stats;
  }

  /** The record of a point in the queue file. */
  byte[] record(DataPointEvent event) {
    return serializer.serializeEvent(event);
  }

  /**
   * What the store will hold of a point.
   *
   * @throws IllegalArgumentException if no store can ever hold it
   */
  Sample sample(DataPointEvent event) throws IOException {
    DataPoint point = event.getDataPoint();
    KDataOutput value = new KDataOutput();
    point.writeValueToBuffer(value);
    Series series =
        new Series(event.getMetricName(), event.getTags(), point.getDataStoreDataType());
    Sample sample =
        new Sample(series, point.getTimestamp(), event.getTtl(), value.getBytes());
    refuseWhatNeverFits(sample);
    return sample;
  }

  private static void refuseWhatNeverFits(Sample sample) {
    Series series = sample.series();
    // From above, as counting bytes exactly is too much for every point.
    long bytes =
        KEY_OVERHEAD + (long) TAG_OVERHEAD * series.tags().size() + 2L * series.characters();
    if (bytes * MAX_BYTES_PER_CHAR > MAX_KEY_BYTES && keyBytes(series) > MAX_KEY_BYTES) {
      throw new IllegalArgumentException("metric and tags are too long for a key of the store");
    }
    if (sample.value().length > MAX_VALUE_BYTES) {
      throw new IllegalArgumentException("a value of more than " + MAX_VALUE_BYTES + " bytes");
    }
  }

  /** Of the partition's key, or of the tags as a map in the row key index if that is longer. */
  private static int keyBytes(Series series) {
    DataPointsRowKey rowKey =
        new DataPointsRowKey(series.metric(), "any", 0, series.type(), series.tags());
    int map = Integer.BYTES;
    for (Map.Entry<String, String> tag : series.tags().entrySet()) {
      map += TAG_OVERHEAD + Utf8.encodedLength(tag.getKey()) + Utf8.encodedLength(tag.getValue());
    }
    return Math.max(map, DATA_POINTS_ROW_KEY_SERIALIZER.toByteBuffer(rowKey).remaining());
  }

  @Override
  public Sample decode(long index, byte[] record) {
    // A metric has a name, and its length comes first. Where there is none, the page of the file
    // was given up, and the process ended before its checkpoint was written: all was acknowledged.
    if (record.length < 2 || (record[0] == 0 && record[1] == 0)) {
      return null;
    }
    try {
      return sample(event(record));
    } catch (IOException | RuntimeException error) {
      // The same each time it is read, so it must not hold up what comes after it.
      logger.error("The record {} of the queue file is no point that can be stored", index, error);
      stats.unreadable.increment();
      return null;
    }
  }

  private DataPointEvent event(byte[] record) throws IOException {
    KDataInput in = KDataInput.createInput(record);
    String metric = in.readUTF();
    int ttl = in.readInt();
    long time = in.readLong();
    String type = in.readUTF();
    DataPoint point = factory.createDataPoint(type, time, in);
    int count = in.readInt();
    ImmutableSortedMap.Builder<String, String> tags = ImmutableSortedMap.naturalOrder();
    for (int i = 0; i < count; i++) {
      tags.put(in.readUTF(), in.readUTF());
    }
    return new DataPointEvent(metric, tags.build(), point, ttl);
  }
}
