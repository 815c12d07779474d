package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.util.TreeMap;

/**
 * What is whole of a queue's file: head and tail as they were noted may be older than the records,
 * or newer, since the disk writes pages in whatever order when the power goes.
 *
 * @param head after the last whole record
 * @param tail the first record that may not be stored
 * @param unreadable records between these, or noted to have been beyond, that are not whole. What is
 *     empty beyond both the noted head and the last whole record was never written, as far as a file
 *     can tell
 * @param lastDataPage the last page of data that a whole record is in; -1 for none
 * @param lastTakenAt the latest time of a whole record, ms since 1970; 0 for none
 */
record Recovery(
    long head, long tail, long unreadable, long lastDataPage, long lastTakenAt) {

  /**
   * Reads all records from the tail on.
   *
   * @param indexPages numbers of the pages of the index that there are
   * @param firstDataPage the lowest page of data that there is: what was in lower ones was stored
   * @param notedHead what the file says, if it was ours or KairosDB's own to write it last
   */
  static Recovery of(
      QueueReader reader,
      TreeMap<Long, Long> indexPages,
      long firstDataPage,
      long notedHead,
      long notedTail)
      throws IOException {
    if (indexPages.isEmpty()) {
      long head = Math.max(0, notedHead);
      long lost = notedTail >= 0 && notedTail < head ? head - notedTail : 0;
      return new Recovery(head, head, lost, -1, 0);
    }
    long lowest = indexPages.firstKey() * IndexItem.PER_PAGE;
    long highest = (indexPages.lastKey() + 1) * IndexItem.PER_PAGE;
    // Pages are removed after the tail moved: what is below the lowest was stored.
    // The last page of the index may be lost; more than that was never there.
    boolean sane =
        notedTail >= 0
            && notedTail <= notedHead
            && notedTail <= highest
            && notedHead <= highest + IndexItem.PER_PAGE;
    long noted = sane ? notedHead : 0;
    long tail = sane ? Math.max(notedTail, lowest) : lowest;

    long last = -1;
    long lastDataPage = -1;
    long lastTakenAt = 0;
    long unreadable = 0;
    // Since the last whole one: torn, if something comes after them, or was noted to.
    long torn = 0;
    // The same of what is empty beyond the noted head, where nothing may have been written yet.
    long empty = 0;
    for (long record = tail; record < highest; record++) {
      boolean blank = !reader.loadItem(record);
      if (blank && record >= noted) {
        long first = record;
        if (!indexPages.containsKey(IndexItem.page(record))) {
          record = (IndexItem.page(record) + 1) * IndexItem.PER_PAGE - 1;
        }
        empty += record + 1 - first;
        continue;
      }
      boolean whole =
          !blank && reader.load(record) && (reader.item().hasSum() || record < noted);
      if (whole) {
        last = record;
        lastDataPage = Math.max(lastDataPage, reader.item().page);
        lastTakenAt = Math.max(lastTakenAt, reader.takenAt());
        unreadable += torn + empty;
        torn = 0;
        empty = 0;
      } else if (blank || last >= 0 || reader.item().page >= firstDataPage) {
        torn++;
      }
    }
    unreadable += torn;
    unreadable += Math.max(0, noted - highest);
    long head = last >= 0 ? last + 1 : Math.max(tail, noted);
    return new Recovery(head, last >= 0 ? tail : head, unreadable, lastDataPage, lastTakenAt);
  }
}
