package io.kairoscope.kairosdb.queue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.atomic.LongAdder;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.KairosDataPointFactory;
import org.kairosdb.util.KDataInputStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Between KairosDB's points and the records of the queue's file.
 *
 * <p>The records are those of KairosDB's own serializer, so that its queue processors and ours read
 * each other's files.
 */
final class PointCodec {
  private static final Logger logger = LoggerFactory.getLogger(PointCodec.class);

  private final KairosDataPointFactory factory;
  private final LongAdder unreadable;
  private final Strangers strangers;
  private final ThreadLocal<RecordBuffer> buffer = ThreadLocal.withInitial(RecordBuffer::new);
  private final ThreadLocal<SeriesBytes> series = ThreadLocal.withInitial(SeriesBytes::new);

  /** Gets points of KairosDB's own queue whose type is none that this KairosDB has. */
  interface Strangers {
    void keep(DeadLetters.Letter letter) throws IOException;
  }

  /**
   * @param unreadable counts records that are no point
   */
  PointCodec(KairosDataPointFactory factory, LongAdder unreadable, Strangers strangers) {
    this.factory = factory;
    this.unreadable = unreadable;
    this.strangers = strangers;
  }

  /**
   * The record of a point, alone in its buffer, valid until this thread asks for the next.
   *
   * @throws RefusedPointException if no store can ever hold it
   */
  RecordBuffer record(
      String metric, SortedMap<String, String> tags, DataPoint point, int ttlS)
      throws RefusedPointException {
    SeriesBytes of = series.get();
    RecordBuffer record = buffer.get();
    record.clear();
    try {
      of.set(metric == null ? "" : metric, tags);
      record.begin(of, ttlS, point.getTimestamp());
      record.type(point.getDataStoreDataType());
      point.writeValueToBuffer(record);
    } catch (IOException tooLong) {
      throw new RefusedPointException(tooLong.getMessage());
    }
    record.end();
    return record;
  }

  /**
   * Where the tags begin in the record that is loaded; 0 if it is no point. Records of KairosDB's own
   * queue do not have that noted, and their type must be known to find out.
   */
  int tagsAt(PointFile.Reader file) {
    byte[] record = file.bytes();
    int length = file.length();
    int tagsAt = file.tagsAt();
    try {
      int metricEnd = length < Short.BYTES ? 0 : SeriesRecords.metricEnd(record);
      int typeAt = SeriesRecords.typeAt(metricEnd);
      // A metric has a name.
      if (metricEnd <= Short.BYTES || typeAt + Short.BYTES > length) {
        return 0;
      }
      int valueAt = SeriesRecords.valueAt(record, typeAt);
      if (tagsAt == 0) {
        tagsAt = foundTagsAt(Arrays.copyOf(record, length));
      }
      return valueAt <= tagsAt && tagsAt + Integer.BYTES <= length ? tagsAt : 0;
    } catch (IOException | RuntimeException error) {
      logger.debug("A record of the queue's file is no point", error);
      return 0;
    }
  }

  private int foundTagsAt(byte[] record) throws IOException {
    KDataInputStream in = new KDataInputStream(new ByteArrayInputStream(record));
    in.readUTF();
    in.readInt();
    long time = in.readLong();
    factory.createDataPoint(in.readUTF(), time, in);
    int tagsAt = record.length - in.available();
    for (int strings = 2 * in.readInt(); strings > 0; strings--) {
      in.readUTF();
    }
    return in.available() == 0 ? tagsAt : 0;
  }

  /**
   * Gives a record up that is no point which can be stored: the same each time it is read.
   *
   * @param whole whether the record that is loaded is what was written
   * @throws IOException if it is somebody's point all the same, and could not be kept
   */
  void giveUp(PointFile.Reader file, long index, boolean whole) throws IOException {
    DeadLetters.Letter letter = whole ? stranger(file) : null;
    if (letter != null) {
      logger.warn("The record {} of the queue's file: {}", index, letter.reason());
      strangers.keep(letter);
      return;
    }
    unreadable.increment();
    logger.error("The record {} of the queue's file is no point that can be stored", index);
  }

  /**
   * A point of KairosDB's own queue whose type is not registered any more, as its plugin is gone.
   * Where its value ends only the type knows: the letter has value and tags as its value. Null if it
   * is no such point.
   */
  private DeadLetters.Letter stranger(PointFile.Reader file) {
    byte[] record = Arrays.copyOf(file.bytes(), file.length());
    try {
      KDataInputStream in = new KDataInputStream(new ByteArrayInputStream(record));
      String metric = in.readUTF();
      int ttlS = in.readInt();
      long time = in.readLong();
      String type = in.readUTF();
      if (metric.isEmpty()
          || type.isEmpty()
          || factory.getFactoryForDataStoreType(type) != null) {
        return null;
      }
      byte[] rest = Arrays.copyOfRange(record, record.length - in.available(), record.length);
      return new DeadLetters.Letter(
          metric,
          new TreeMap<>(),
          type,
          new Point(0, time, file.takenAt(), ttlS, rest, null),
          System.currentTimeMillis(),
          "the type " + type + " is not registered; the value has its tags behind it");
    } catch (IOException | RuntimeException none) {
      logger.debug("A record of the queue's file is no point", none);
      return null;
    }
  }
}
