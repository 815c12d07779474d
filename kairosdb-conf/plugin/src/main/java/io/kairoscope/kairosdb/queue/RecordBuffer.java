package io.kairoscope.kairosdb.queue;

import com.google.common.hash.Hashing;
import java.io.DataOutput;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.SortedMap;
import org.kairosdb.core.DataPoint;

/**
 * A point as KairosDB's own serializer (DataPointEventSerializer) writes it to its queue's file:
 * metric, time to live, time, type, value, number of tags, tags. One for each thread, used again and
 * again: that serializer makes four objects and copies the bytes twice for each point.
 */
final class RecordBuffer implements DataOutput {
  // What a length of two bytes can tell.
  private static final int MAX_STRING_BYTES = 65_535;

  private byte[] bytes = new byte[1 << 9];
  private int length;
  private int tagsAt;
  private int valueBytes;
  private int keyBytes;
  private long key;

  /**
   * Takes a point, in place of the one before.
   *
   * @throws IOException if a string is too long for the format
   */
  void set(String metric, SortedMap<String, String> tags, DataPoint point, int ttlS)
      throws IOException {
    length = 0;
    writeUTF(metric);
    int metricBytes = length;
    writeInt(ttlS);
    writeLong(point.getTimestamp());
    int typeAt = length;
    writeUTF(point.getDataStoreDataType());
    int valueAt = length;
    point.writeValueToBuffer(this);
    tagsAt = length;
    valueBytes = tagsAt - valueAt;
    writeInt(tags.size());
    for (Map.Entry<String, String> tag : tags.entrySet()) {
      writeUTF(tag.getKey());
      writeUTF(tag.getValue());
    }
    keyBytes = metricBytes + valueAt - typeAt + length - tagsAt;
    key = key(bytes, length, metricBytes, typeAt, valueAt - typeAt, tagsAt);
  }

  /**
   * A number by which points of a series are found again: its upper half is the metric's. Two series
   * may have the same, as rarely as it happens with 64 bits.
   */
  static long key(
      byte[] record, int length, int metricBytes, int typeAt, int typeBytes, int tagsAt) {
    long metric = hash(record, 0, metricBytes);
    long rest = 31 * hash(record, typeAt, typeBytes) + hash(record, tagsAt, length - tagsAt);
    return metric << 32 | (rest ^ rest >>> 32) & 0xffff_ffffL;
  }

  /** The upper half of the keys of all series of a metric. */
  static int metricKey(String metric) throws IOException {
    RecordBuffer buffer = new RecordBuffer();
    buffer.writeUTF(metric);
    return (int) hash(buffer.bytes, 0, buffer.length);
  }

  static int metricOf(long key) {
    return (int) (key >>> 32);
  }

  private static long hash(byte[] bytes, int from, int count) {
    return Hashing.farmHashFingerprint64().hashBytes(bytes, from, count).asLong();
  }

  /** The record is at their beginning. */
  byte[] bytes() {
    return bytes;
  }

  int length() {
    return length;
  }

  int tagsAt() {
    return tagsAt;
  }

  int valueBytes() {
    return valueBytes;
  }

  /** Of metric, type and tags together, from above what a key of the store has of them. */
  int keyBytes() {
    return keyBytes;
  }

  long key() {
    return key;
  }

  private void room(int more) {
    if (length + more > bytes.length) {
      bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, length + more));
    }
  }

  @Override
  public void write(int value) {
    room(1);
    bytes[length++] = (byte) value;
  }

  @Override
  public void write(byte[] from) {
    write(from, 0, from.length);
  }

  @Override
  public void write(byte[] from, int at, int count) {
    room(count);
    System.arraycopy(from, at, bytes, length, count);
    length += count;
  }

  @Override
  public void writeBoolean(boolean value) {
    write(value ? 1 : 0);
  }

  @Override
  public void writeByte(int value) {
    write(value);
  }

  @Override
  public void writeShort(int value) {
    room(Short.BYTES);
    bytes[length++] = (byte) (value >>> 8);
    bytes[length++] = (byte) value;
  }

  @Override
  public void writeChar(int value) {
    writeShort(value);
  }

  @Override
  public void writeInt(int value) {
    room(Integer.BYTES);
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes[length++] = (byte) (value >>> shift);
    }
  }

  @Override
  public void writeLong(long value) {
    room(Long.BYTES);
    for (int shift = 56; shift >= 0; shift -= 8) {
      bytes[length++] = (byte) (value >>> shift);
    }
  }

  @Override
  public void writeFloat(float value) {
    writeInt(Float.floatToIntBits(value));
  }

  @Override
  public void writeDouble(double value) {
    writeLong(Double.doubleToLongBits(value));
  }

  @Override
  public void writeBytes(String text) {
    write(text.getBytes(StandardCharsets.ISO_8859_1));
  }

  @Override
  public void writeChars(String text) {
    for (int i = 0; i < text.length(); i++) {
      writeChar(text.charAt(i));
    }
  }

  /** As java.io.DataOutput defines it: its own UTF-8, after a length of two bytes. */
  @Override
  public void writeUTF(String text) throws IOException {
    int lengthAt = length;
    room(2 + 3 * text.length());
    length += 2;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c >= 1 && c < 0x80) {
        bytes[length++] = (byte) c;
      } else if (c < 0x800) {
        bytes[length++] = (byte) (0xc0 | c >> 6);
        bytes[length++] = (byte) (0x80 | c & 0x3f);
      } else {
        bytes[length++] = (byte) (0xe0 | c >> 12);
        bytes[length++] = (byte) (0x80 | c >> 6 & 0x3f);
        bytes[length++] = (byte) (0x80 | c & 0x3f);
      }
    }
    int count = length - lengthAt - 2;
    if (count > MAX_STRING_BYTES) {
      throw new IOException("a string of " + count + " bytes, of " + MAX_STRING_BYTES + " at most");
    }
    bytes[lengthAt] = (byte) (count >>> 8);
    bytes[lengthAt + 1] = (byte) count;
  }
}
