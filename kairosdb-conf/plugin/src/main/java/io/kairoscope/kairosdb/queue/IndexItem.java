package io.kairoscope.kairosdb.queue;

import java.nio.ByteBuffer;
import java.util.zip.CRC32C;

/**
 * What the index has of a record: 32 bytes, of which KairosDB's own queue (BigArrayImpl of bigqueue
 * 1.0.1) knows the first 24: data page, offset, length, time. In the 8 that it leaves alone are our
 * checksum of the record and of all of this, and where the tags begin in the record.
 *
 * <p>The number of the record is in the checksum, too, so that an item which is written to the wrong
 * place is not taken for another one's.
 */
final class IndexItem {
  static final int BYTES = 32;
  static final int PER_PAGE = 1 << 17;
  static final int PAGE_BYTES = PER_PAGE * BYTES;

  private static final int OFFSET_AT = 8;
  private static final int LENGTH_AT = 12;
  private static final int TIME_AT = 16;
  private static final int SUM_AT = 24;
  private static final int MARK_AT = 28;
  // Set with each record that has a checksum: KairosDB's own have zeros there.
  private static final int SUMMED = 1 << 31;

  long page;
  int offset;
  int length;
  long takenAt;
  private int sum;
  private int mark;

  private final CRC32C crc = new CRC32C();
  private final ByteBuffer summed = ByteBuffer.allocate(Long.BYTES + SUM_AT + Integer.BYTES);

  static long page(long record) {
    return record / PER_PAGE;
  }

  private static int at(long record) {
    return (int) (record % PER_PAGE) * BYTES;
  }

  /** Data page and offset of a record as one number; negative if there are none such. */
  static long place(ByteBuffer index, long record) {
    long page = index.getLong(at(record));
    return page >>> Integer.SIZE - 1 == 0
        ? page << Integer.SIZE | index.getInt(at(record) + OFFSET_AT)
        : -1;
  }

  static long pageOf(long place) {
    return place >>> Integer.SIZE;
  }

  static int offsetOf(long place) {
    return (int) place;
  }

  /** Takes what the index has. */
  void read(ByteBuffer index, long record) {
    int at = at(record);
    page = index.getLong(at);
    offset = index.getInt(at + OFFSET_AT);
    length = index.getInt(at + LENGTH_AT);
    takenAt = index.getLong(at + TIME_AT);
    sum = index.getInt(at + SUM_AT);
    mark = index.getInt(at + MARK_AT);
  }

  void set(long page, int offset, int length, long takenAt, int tagsAt) {
    this.page = page;
    this.offset = offset;
    this.length = length;
    this.takenAt = takenAt;
    mark = tagsAt | SUMMED;
  }

  /** Writes it, with the checksum of its record. */
  void write(ByteBuffer index, long record, byte[] bytes, int from) {
    int at = at(record);
    index.putLong(at, page);
    index.putInt(at + OFFSET_AT, offset);
    index.putInt(at + LENGTH_AT, length);
    index.putLong(at + TIME_AT, takenAt);
    index.putInt(at + SUM_AT, sumOf(record, bytes, from));
    index.putInt(at + MARK_AT, mark);
  }

  /** Nothing was ever written there. */
  boolean blank() {
    return page == 0 && offset == 0 && length == 0 && takenAt == 0 && sum == 0 && mark == 0;
  }

  /** Whether the record is one of ours, which has a checksum, and not KairosDB's own. */
  boolean hasSum() {
    return mark != 0 || sum != 0;
  }

  /** Whether the checksum is that of these bytes, as this record. */
  boolean sumIs(long record, byte[] bytes) {
    return sum == sumOf(record, bytes, 0);
  }

  /** Where the tags begin; only of records that have a checksum. */
  int tagsAt() {
    return mark & ~SUMMED;
  }

  private int sumOf(long record, byte[] bytes, int from) {
    crc.reset();
    crc.update(bytes, from, length);
    summed.clear();
    summed.putLong(record).putLong(page).putInt(offset).putInt(length).putLong(takenAt);
    summed.putInt(mark);
    crc.update(summed.array(), 0, summed.capacity());
    return (int) crc.getValue();
  }
}
